"""Retention in memory: erasing and removing jobs, and their tombstones."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from holdfast.model import canonical
from holdfast.model.retention import (
    ERASABLE,
    PruneMode,
    PruneResult,
    RetentionPolicy,
    RetentionRow,
    Tombstone,
    find_reason_to_keep,
)
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import TERMINAL
from holdfast.store.memory.blobs import find_unreferenced
from holdfast.store.memory.state import JobRow, MemoryState, MemoryTransaction, Tables, TombRow
from holdfast.store.ports.retention import FreedBlobs


class MemoryRetention:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def over(self, policy: RetentionPolicy, *, after: str = "", limit: int = 100) -> list[str]:
        tables, now = self._state.tables, self._state.clock.wall_us()
        found = [
            job_id
            for job_id, row in sorted(tables.jobs.items())
            if job_id > after
            and row.head.status in TERMINAL
            and row.events[-1].at <= now - policy.older_than_us
            and _find_pruning(tables, job_id) is not policy.how
        ]
        return found[:limit]

    async def prune(
        self, job_ids: Sequence[str], policy: RetentionPolicy, *, dry_run: bool = False
    ) -> list[PruneResult]:
        with self._state.transaction() as work:
            rows = [work.tables.jobs[job_id] for job_id in sorted(set(job_ids)) if job_id in work.tables.jobs]
            pruned = [_judge(work, row, policy) for row in rows]
            for row, result in zip(rows, pruned, strict=True):
                if result.kept is None and not dry_run:
                    _prune_job(work, row, policy.how)
            return pruned

    async def find_tombstone(self, job_id: str) -> Tombstone | None:
        tomb = self._state.tables.tombs.get(job_id)
        return None if tomb is None else tomb.stone

    async def collect(self, *, grace_us: int, batch: int, dry_run: bool = False) -> FreedBlobs:
        with self._state.transaction() as work:
            old = [
                (namespace, digest, len(row.body))
                for namespace in sorted(work.tables.namespaces)
                for digest, row in find_unreferenced(work.tables, namespace)
                if row.created_at + grace_us <= work.wall
            ]
            for namespace, digest, _ in () if dry_run else old:
                del work.tables.blobs[namespace, digest]
            return FreedBlobs(len(old), sum(size for _, _, size in old))


def _find_pruning(tables: Tables, job_id: str) -> PruneMode | None:
    tomb = tables.tombs.get(job_id)
    return None if tomb is None else tomb.stone.how


def _judge(work: MemoryTransaction, row: JobRow, policy: RetentionPolicy) -> PruneResult:
    job_id = row.head.job_id
    reason = find_reason_to_keep(_find_standing(work.tables, row), policy, now=work.wall)
    if reason is not None:
        return PruneResult(job_id=job_id, kept=reason)
    sizes = [
        len(event.body or b"")
        for event in row.events
        if policy.how is PruneMode.REMOVE or (event.type in ERASABLE and event.body is not None)
    ]
    return PruneResult(job_id=job_id, events=len(sizes), size=sum(sizes))


def _find_standing(tables: Tables, row: JobRow) -> RetentionRow:
    head = row.head
    parent = None if row.submission.parent_job_id is None else tables.jobs.get(row.submission.parent_job_id)
    unknown = {CallStatus.PREPARED, CallStatus.UNCERTAIN}
    return RetentionRow(
        job_id=head.job_id,
        namespace=head.namespace,
        kind=head.kind,
        status=head.status,
        head_seq=head.head_seq,
        head_hash=head.head_hash,
        created_at=row.submission.created_at,
        ended_at=row.events[-1].at,
        request_key=row.submission.request_key,
        request_digest=row.submission.request_digest,
        parent_status=None if parent is None else parent.head.status,
        children=sum(other.submission.parent_job_id == head.job_id for other in tables.jobs.values()),
        calls=len(row.calls),
        open_calls=sum(call.status in unknown for call in row.calls.values()),
        pruned=_find_pruning(tables, head.job_id),
    )


def _prune_job(work: MemoryTransaction, row: JobRow, how: PruneMode) -> None:
    tables, head = work.tables, row.head
    if how is PruneMode.ERASE:
        events = tuple(
            msgspec.structs.replace(event, body=None) if event.type in ERASABLE else event
            for event in row.events
        )
        letters = tuple(
            msgspec.structs.replace(letter, body=canonical.encode(None)) for letter in row.letters
        )
        tables.jobs[head.job_id] = dataclasses.replace(row, events=events, letters=letters, passages=())
    else:
        for call in row.calls.values():
            del tables.keys[call.idempotency_key]
        tables.accounts.pop(head.job_id, None)
        del tables.jobs[head.job_id]
    stone = Tombstone(
        job_id=head.job_id,
        namespace=head.namespace,
        kind=head.kind,
        status=head.status,
        head_seq=head.head_seq,
        head_hash=head.head_hash,
        created_at=row.submission.created_at,
        ended_at=row.events[-1].at,
        pruned_at=work.wall,
        how=how,
    )
    tables.tombs[head.job_id] = TombRow(stone, row.submission.request_key, row.submission.request_digest)
