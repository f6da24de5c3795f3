"""Ledger in memory: tool calls, written together with their events."""

from __future__ import annotations

import dataclasses
from collections import Counter

import msgspec

from holdfast.errors import InvalidMove, KeyReused
from holdfast.model.ledger import CallRow
from holdfast.model.side_effects import CALL_MOVES, CallStatus
from holdfast.store.memory.state import MemoryState, MemoryTransaction
from holdfast.store.ports.ledger import Receipt


class MemoryLedger:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def find(self, job_id: str, step_key: str, generation: int = 0) -> CallRow | None:
        job = self._state.tables.jobs.get(job_id)
        return None if job is None else job.calls.get((step_key, generation))

    async def receipt(self, job_id: str, step_key: str) -> Receipt | None:
        job = self._state.tables.jobs.get(job_id)
        rows = [] if job is None else [row for row in job.calls.values() if row.step_key == step_key]
        if job is None or not rows:
            return None
        newest = max(rows, key=lambda row: row.generation)
        found = (event for event in job.events if event.seq == newest.result_seq)
        return Receipt(newest, next(found, None))

    async def find_by_key(self, idempotency_key: str) -> CallRow | None:
        place = self._state.tables.keys.get(idempotency_key)
        return None if place is None else await self.find(*place)

    async def list(self, job_id: str, *, status: CallStatus | None = None) -> list[CallRow]:
        job = self._state.tables.jobs.get(job_id)
        rows = [] if job is None else [row for row in job.calls.values() if status in (None, row.status)]
        return sorted(rows, key=lambda row: (row.intent_seq, row.step_key, row.generation))

    async def counts(self, namespace: str) -> dict[tuple[str, str, str], int]:
        jobs = [job for job in self._state.tables.jobs.values() if job.head.namespace == namespace]
        rows = [row for job in jobs for row in job.calls.values()]
        return dict(Counter((r.tool_name, r.side_effect_class.value, r.status.value) for r in rows))


def write_call(work: MemoryTransaction, job_id: str, row: CallRow) -> None:
    """Add the row to the job's ledger, or move the stored one. Raises KeyReused or InvalidMove."""
    job = work.tables.jobs[job_id]
    place = (row.step_key, row.generation)
    if row.job_id != job_id:
        raise InvalidMove(f"call {row.tool_call_id} of job {row.job_id} cannot be written by job {job_id}")
    stored = job.calls.get(place)
    _check_key(work, row)
    if stored is not None and (stored.args_digest, stored.idempotency_key) != (
        row.args_digest,
        row.idempotency_key,
    ):
        raise _make_key_error(stored, row)
    before = None if stored is None else stored.status
    if row.status not in CALL_MOVES[before]:
        raise InvalidMove(f"call {row.tool_call_id} cannot go from {before} to {row.status}")
    if stored is None:
        _check_call_id(work, row)
    else:
        row = _update_row(stored, row)
    work.tables.keys[row.idempotency_key] = (job_id, *place)
    work.tables.jobs[job_id] = dataclasses.replace(job, calls={**job.calls, place: row})


def _update_row(stored: CallRow, row: CallRow) -> CallRow:
    """The stored row with the state of the new one. What was called, and when its intent was recorded, stays."""
    return msgspec.structs.replace(
        stored,
        status=row.status,
        attempt=row.attempt,
        fence=row.fence,
        result_seq=row.result_seq,
        start_by=row.start_by,
        longest_call_us=row.longest_call_us,
        approval_id=row.approval_id,
        settled_at=row.settled_at,
    )


def _check_call_id(work: MemoryTransaction, row: CallRow) -> None:
    calls = (call for job in work.tables.jobs.values() for call in job.calls.values())
    if any(call.tool_call_id == row.tool_call_id for call in calls):
        raise InvalidMove(f"there is another call {row.tool_call_id!r}")


def _check_key(work: MemoryTransaction, row: CallRow) -> None:
    """Raise KeyReused unless the key belongs to this job, step and generation."""
    user = work.tables.keys.get(row.idempotency_key)
    if user is not None and user != (row.job_id, row.step_key, row.generation):
        job_id, step_key, generation = user
        raise _make_key_error(work.tables.jobs[job_id].calls[step_key, generation], row)


def _make_key_error(stored: CallRow, sent: CallRow) -> KeyReused:
    return KeyReused(
        f"key {sent.idempotency_key} belongs to job {stored.job_id}, step {stored.step_key!r}, "
        f"generation {stored.generation}, with its arguments",
        stored=stored.args_digest,
        sent=sent.args_digest,
    )
