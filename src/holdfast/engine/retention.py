"""Retention: erases or removes old jobs batch by batch, so that other writers do not wait long.

Every batch is one commit and leaves a store in which every invariant holds. So retention may be killed anywhere, run
again, and run while workers do.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from holdfast.model.retention import CHILDREN_KEPT, RetentionPolicy, check_policy
from holdfast.store.contract import Store


class RetentionReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what was pruned, and why the rest was kept.

    `size` is the bytes of event bodies; a database reuses them itself, and does not return them to the disk at once.
    """

    jobs: int
    events: int
    size: int
    blobs: int
    blob_bytes: int
    kept: dict[str, int]


async def prune(store: Store, policy: RetentionPolicy, *, dry_run: bool = False) -> RetentionReport:
    """Prunes everything that the policy allows; with `dry_run`, only counts it.

    Children go before their parents, whose turn comes in the next round. A dry run sees one round only.
    """
    check_policy(policy)
    removed: Counter[str] = Counter()
    while True:
        before = removed["jobs"]
        kept = await _prune_round(store, policy, removed, dry_run=dry_run)
        if dry_run or removed["jobs"] == before or CHILDREN_KEPT not in kept:
            break
    freed = await store.retention.collect(grace_us=policy.blob_grace_us, batch=policy.batch, dry_run=dry_run)
    return RetentionReport(
        jobs=removed["jobs"],
        events=removed["events"],
        size=removed["size"],
        blobs=freed.blobs,
        blob_bytes=freed.size,
        kept=dict(sorted(kept.items())),
    )


async def _prune_round(
    store: Store, policy: RetentionPolicy, removed: Counter[str], *, dry_run: bool
) -> Counter[str]:
    """Checks every job that ended long enough ago once. Returns the reasons why jobs were kept, with counts."""
    kept: Counter[str] = Counter()
    after = ""
    while job_ids := await store.retention.over(policy, after=after, limit=policy.batch):
        for job in await store.retention.prune(job_ids, policy, dry_run=dry_run):
            if job.kept is None:
                removed.update(jobs=1, events=job.events, size=job.size)
            else:
                kept[job.kept] += 1
        after = job_ids[-1]
    return kept
