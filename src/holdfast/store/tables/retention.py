"""Retention over SQL.

The triggers of the journal allow a change only while the retention gate is open. The gate is a row that is inserted and
removed within one transaction, so no other transaction ever sees it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from holdfast.errors import NotFound
from holdfast.model.retention import (
    ERASABLE,
    PruneMode,
    PruneResult,
    RetentionPolicy,
    RetentionRow,
    Tombstone,
    find_reason_to_keep,
)
from holdfast.model.states import Status
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.ports.retention import FreedBlobs
from holdfast.store.tables.blobs import find_named_digests
from holdfast.store.tables.job_heads import lock_head
from holdfast.store.tables.payloads import to_enum

NOTHING: Final = b""
SAID_NOTHING: Final = b"null"
"""The body of an erased letter. (Letters are not in the hash chain.)"""

TYPES: Final = sorted(ERASABLE)


class SqlRetention:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def over(self, policy: RetentionPolicy, *, after: str = "", limit: int = 100) -> list[str]:
        async def work(tx: Transaction) -> list[str]:
            rows = await tx.rows(
                "list_prunable_jobs",
                after=after,
                older_than_us=policy.older_than_us,
                how=policy.how,
                limit=limit,
            )
            return [row[0] for row in rows]

        return await self._executor.read(work)

    async def prune(
        self, job_ids: Sequence[str], policy: RetentionPolicy, *, dry_run: bool = False
    ) -> list[PruneResult]:
        ordered = sorted(set(job_ids))  # the order in which every transaction locks heads

        async def look(tx: Transaction) -> list[PruneResult]:
            return [await _judge(tx, job, policy) for job in await _load_standings(tx, ordered)]

        async def work(tx: Transaction) -> list[PruneResult]:
            locked = [job_id for job_id in ordered if await _is_there(tx, job_id)]
            jobs = {job.job_id: job for job in await _load_standings(tx, locked)}
            pruned = [await _judge(tx, job, policy) for job in jobs.values()]
            await tx.run("open_retention_gate")
            for result in pruned:
                if result.kept is None:
                    await _prune_job(tx, jobs[result.job_id], policy.how)
            await tx.run("close_retention_gate")
            return pruned

        return await (self._executor.read(look) if dry_run else self._executor.write(work))

    async def find_tombstone(self, job_id: str) -> Tombstone | None:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("find_tombstone", job_id=job_id)

        row = await self._executor.read(work, brief=True)
        if row is None:
            return None
        values = dict(zip(Tombstone.__struct_fields__, row, strict=True))
        return Tombstone(**values | {"status": to_enum(Status, row[3]), "how": to_enum(PruneMode, row[9])})

    async def collect(self, *, grace_us: int, batch: int, dry_run: bool = False) -> FreedBlobs:
        """Find unreferenced blobs without a lock. A blob that is stored again meanwhile has a new time, and stays."""
        unreferenced, before = await self._executor.read(
            functools.partial(_find_unreferenced, grace_us=grace_us), snapshot=True
        )
        sizes: list[int] = []
        for start in range(0, len(unreferenced), batch):
            places = unreferenced[start : start + batch]
            if dry_run:
                sizes += await self._executor.read(functools.partial(_read_sizes, places=places))
            else:
                sizes += await self._executor.write(
                    functools.partial(_remove_blobs, places=places, before=before)
                )
        return FreedBlobs(len(sizes), sum(sizes))


async def _is_there(tx: Transaction, job_id: str) -> bool:
    """Whether the job exists; if so, its head is locked until the transaction ends."""
    try:
        await lock_head(tx, job_id)
    except NotFound:
        return False
    return True


async def _load_standings(tx: Transaction, job_ids: Sequence[str]) -> list[RetentionRow]:
    rows = [await tx.row("get_retention_state", job_id=job_id) for job_id in job_ids]
    return [_to_standing(row) for row in rows if row is not None]


def _to_standing(row: Row) -> RetentionRow:
    values = dict(zip(RetentionRow.__struct_fields__, row, strict=True))
    values["status"] = to_enum(Status, values["status"])
    if values["parent_status"] is not None:
        values["parent_status"] = to_enum(Status, values["parent_status"])
    if values["pruned"] is not None:
        values["pruned"] = to_enum(PruneMode, values["pruned"])
    return RetentionRow(**values)


async def _judge(tx: Transaction, job: RetentionRow, policy: RetentionPolicy) -> PruneResult:
    """The decision about the job, and how much of it would be erased or removed."""
    now = await tx.row("read_wall_clock")
    assert now is not None
    reason = find_reason_to_keep(job, policy, now=now[0])
    if reason is not None:
        return PruneResult(job_id=job.job_id, kept=reason)
    if policy.how is PruneMode.ERASE:
        counted = await tx.row("count_bodies_to_erase", job_id=job.job_id, types=TYPES)
    else:
        counted = await tx.row("count_bodies_to_remove", job_id=job.job_id)
    assert counted is not None
    return PruneResult(job_id=job.job_id, events=counted[0], size=counted[1])


async def _prune_job(tx: Transaction, job: RetentionRow, how: PruneMode) -> None:
    await tx.run("remove_passages", job_id=job.job_id)
    if how is PruneMode.ERASE:
        await tx.run("erase_events", job_id=job.job_id, types=TYPES, nothing=NOTHING)
        await tx.run("erase_mail", job_id=job.job_id, nothing=SAID_NOTHING)
    else:
        await tx.run("remove_events", job_id=job.job_id)
        await tx.run("remove_mail", job_id=job.job_id)
        await tx.run("remove_calls", job_id=job.job_id)
        await tx.run("remove_work", job_id=job.job_id)
        await tx.run("remove_timers", job_id=job.job_id)
        await tx.run("remove_budget", budget_id=job.job_id)
        await tx.run("remove_head", job_id=job.job_id)
        await tx.run("remove_job", job_id=job.job_id)
    await tx.run(
        "put_tombstone",
        job_id=job.job_id,
        namespace=job.namespace,
        kind=job.kind,
        status=job.status,
        head_seq=job.head_seq,
        head_hash=job.head_hash,
        created_at=job.created_at,
        ended_at=job.ended_at,
        how=how,
        request_key=job.request_key,
        request_digest=job.request_digest,
    )


Blob = tuple[str, bytes]


async def _find_unreferenced(tx: Transaction, grace_us: int) -> tuple[list[Blob], int]:
    """The unreferenced blobs, and the instant before which they were stored."""
    now = await tx.row("read_wall_clock")
    assert now is not None
    before = now[0] - grace_us
    found: list[Blob] = []
    for namespace, _ in await tx.rows("list_namespaces"):
        referenced = await find_named_digests(tx, namespace)
        for digest, created_at in await tx.rows("list_unreferenced_blobs", namespace=namespace):
            if bytes(digest) not in referenced and created_at <= before:
                found.append((namespace, bytes(digest)))
    return found, before


async def _read_sizes(tx: Transaction, places: Sequence[Blob]) -> list[int]:
    rows = [await tx.row("get_blob", namespace=namespace, digest=digest) for namespace, digest in places]
    return [len(row[0]) for row in rows if row is not None]


async def _remove_blobs(tx: Transaction, places: Sequence[Blob], before: int) -> list[int]:
    """Remove the blobs; returns the sizes of those that were removed."""
    rows = [
        await tx.row("remove_old_blob", namespace=namespace, digest=digest, before=before)
        for namespace, digest in places
    ]
    return [row[0] for row in rows if row is not None]
