"""Streams in memory: output of running jobs, stored with the job."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from holdfast.model.states import Status
from holdfast.model.streams import START, Cursor, Passage
from holdfast.store.memory.state import MemoryState, MemoryTransaction
from holdfast.store.ports.streams import StreamAppend, check_stream_append


class MemoryStreams:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def append(self, passages: Sequence[StreamAppend]) -> list[bool]:
        for passage in passages:
            check_stream_append(passage)
        with self._state.transaction() as work:
            return [_append(work, passage) for passage in passages]

    async def read(self, job_id: str, *, after: Cursor = START, limit: int = 100) -> list[Passage]:
        return [passage for passage in self._list_passages(job_id) if _to_cursor(passage) > after][:limit]

    async def attempts(self, job_id: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for passage in self._list_passages(job_id):
            for step_key, attempt in passage.voices:
                found[step_key] = max(attempt, found.get(step_key, 0))
        return found

    def _list_passages(self, job_id: str) -> tuple[Passage, ...]:
        row = self._state.tables.jobs.get(job_id)
        return () if row is None else row.passages


def _append(work: MemoryTransaction, held_passage: StreamAppend) -> bool:
    held, passage = held_passage.held, held_passage.passage
    row = work.tables.jobs.get(held.job_id)
    if row is None:
        return False
    if any(_to_cursor(stored) == _to_cursor(passage) for stored in row.passages):
        return True
    head = row.head
    if head.status is not Status.RUNNING or (head.fence, head.lease_token) != (held.fence, held.lease_token):
        return False
    dated = msgspec.structs.replace(passage, at=work.wall)
    passages = tuple(sorted((*row.passages, dated), key=_to_cursor))
    work.tables.jobs[held.job_id] = dataclasses.replace(row, passages=passages)
    work.hint(f"stream:{held.job_id}")
    return True


def _to_cursor(passage: Passage) -> Cursor:
    return Cursor(passage.fence, passage.last)
