"""Retention carried out: batch by batch, so that nobody waits long for a turn to write.

Every batch is one commit and leaves a store in which every invariant holds. So it may be killed anywhere, run again,
and run while workers go on.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from holdfast.model.retention import CHILDREN_KEPT, RetentionPolicy, check_policy
from holdfast.store.contract import Store


class RetentionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was pruned, and why the rest was kept.

    `size` is the bytes of what jobs said; a database gives them back to itself, not at once to the disk.
    """

    jobs: int
    events: int
    size: int
    blobs: int
    blob_bytes: int
    kept: dict[str, int]


async def prune(store: Store, policy: RetentionPolicy, *, dry_run: bool = False) -> RetentionReport:
    """Everything that the policy lets go is gone; with `dry_run`, only counted.

    Children go before their parents, whose turn comes in the next round. A dry run sees one round only.
    """
    check_policy(policy)
    done: Counter[str] = Counter()
    while True:
        before = done["jobs"]
        kept = await _round(store, policy, done, dry_run=dry_run)
        if dry_run or done["jobs"] == before or CHILDREN_KEPT not in kept:
            break
    freed = await store.retention.collect(grace_us=policy.blob_grace_us, batch=policy.batch, dry_run=dry_run)
    return RetentionReport(
        jobs=done["jobs"],
        events=done["events"],
        size=done["size"],
        blobs=freed.blobs,
        blob_bytes=freed.size,
        kept=dict(sorted(kept.items())),
    )


async def _round(store: Store, policy: RetentionPolicy, done: Counter[str], *, dry_run: bool) -> Counter[str]:
    """Every job that has been over for long enough was looked at once. Says why how many were kept."""
    kept: Counter[str] = Counter()
    after = ""
    while job_ids := await store.retention.over(policy, after=after, limit=policy.batch):
        for one in await store.retention.prune(job_ids, policy, dry_run=dry_run):
            if one.kept is None:
                done.update(jobs=1, events=one.events, size=one.size)
            else:
                kept[one.kept] += 1
        after = job_ids[-1]
    return kept
