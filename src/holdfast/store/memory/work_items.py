"""Work items in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.model.jobs import DEFAULT_NAMESPACE, WorkItemRow
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.model.states import Status, WaitReason
from holdfast.model.work import WorkFilter
from holdfast.store.memory.state import MemoryState
from holdfast.store.ports.work_items import WorkRow

_CURSOR = "work"


class MemoryWork:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def _list_rows(self) -> list[WorkRow]:
        rows = self._state.tables.jobs.values()
        return [WorkRow(row.work, row.head) for row in rows if row.work is not None]

    async def find(self, job_id: str) -> WorkItemRow | None:
        row = self._state.tables.jobs.get(job_id)
        return None if row is None else row.work

    async def list(
        self, work_filter: WorkFilter, *, limit: int = 100, cursor: str | None = None
    ) -> Page[WorkRow]:
        found = sorted(
            (row for row in self._list_rows() if _fits(row, work_filter)), key=_get_job_id, reverse=True
        )
        if cursor is not None:
            (last,) = decode_cursor(_CURSOR, cursor, keys=1)
            found = [row for row in found if _get_job_id(row) < str(last)]
        page = tuple(found[:limit])
        return Page(
            page, encode_cursor(_CURSOR, _get_job_id(page[-1])) if page and len(found) > limit else None
        )

    async def counts(
        self, *, namespace: str = DEFAULT_NAMESPACE
    ) -> dict[tuple[str, Status, WaitReason | None], int]:
        rows = [row for row in self._list_rows() if row.head.namespace == namespace]
        return dict(Counter((row.item.project, row.head.status, row.head.wait_reason) for row in rows))

    async def find_unclaimed(self, limit: int = 100) -> Sequence[str]:
        now = self._state.clock.wall_us()
        found = [
            row.head.job_id
            for row in self._list_rows()
            if row.head.status is Status.PENDING
            and (row.head.mail_seq > 0 or (row.item.deadline_at is not None and row.item.deadline_at <= now))
        ]
        return sorted(found)[:limit]

    async def find_unpreferred(self, capabilities: Sequence[str], *, grace_us: int) -> Sequence[str]:
        since = self._state.clock.wall_us() - grace_us
        kinds = {
            row.head.kind
            for row in self._list_rows()
            if row.item.preferred_type
            and row.item.capability in capabilities
            and row.head.status is Status.PENDING
            and row.head.ready_at <= since
        }
        return sorted(kinds)


def _get_job_id(row: WorkRow) -> str:
    return row.head.job_id


def _fits(row: WorkRow, work_filter: WorkFilter) -> bool:
    dead = row.head.wait_reason is WaitReason.DEAD_LETTER
    return (
        row.head.namespace == work_filter.namespace
        and work_filter.status in {None, row.head.status}
        and work_filter.dead in {None, dead}
        and work_filter.capability in {None, row.item.capability}
        and work_filter.boundary in {None, row.item.boundary}
        and work_filter.project in {None, row.item.project}
    )
