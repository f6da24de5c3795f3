"""Work items over SQL."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.jobs import DEFAULT_NAMESPACE, WorkItemRow
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.model.states import Status, WaitReason
from holdfast.model.work import WorkFilter
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.ports.work_items import WorkRow
from holdfast.store.tables.job_heads import head_of
from holdfast.store.tables.payloads import to_enum

_ITEM = 5
"""The number of columns of a work item; those of the head follow."""


class SqlWork:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def find(self, job_id: str) -> WorkItemRow | None:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("find_work", job_id=job_id)

        row = await self._executor.read(work, brief=True)
        return None if row is None else _to_item(row)

    async def list(
        self, work_filter: WorkFilter, *, limit: int = 100, cursor: str | None = None
    ) -> Page[WorkRow]:
        before = None if cursor is None else str(decode_cursor("work", cursor, keys=1)[0])

        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows(
                "list_work",
                namespace=work_filter.namespace,
                status=work_filter.status,
                dead=None if work_filter.dead is None else int(work_filter.dead),
                capability=work_filter.capability,
                boundary=work_filter.boundary,
                project=work_filter.project,
                before=before,
                limit=limit + 1,
            )

        found = [
            WorkRow(_to_item(row[:_ITEM]), head_of(row[_ITEM:])) for row in await self._executor.read(work)
        ]
        more = encode_cursor("work", found[limit - 1].head.job_id) if len(found) > limit > 0 else None
        return Page(tuple(found[:limit]), more)

    async def counts(
        self, *, namespace: str = DEFAULT_NAMESPACE
    ) -> dict[tuple[str, Status, WaitReason | None], int]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("count_work", namespace=namespace)

        return {
            (project, to_enum(Status, status), to_enum(WaitReason, reason) if reason else None): count
            for project, status, reason, count in await self._executor.read(work)
        }

    async def find_unclaimed(self, limit: int = 100) -> Sequence[str]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("list_unclaimed_work", limit=limit)

        return [row[0] for row in await self._executor.read(work)]

    async def find_unpreferred(self, capabilities: Sequence[str], *, grace_us: int) -> Sequence[str]:
        if not capabilities:
            return []

        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("list_unpreferred_work", capabilities=list(capabilities), grace_us=grace_us)

        return [row[0] for row in await self._executor.read(work, brief=True)]


async def insert_work_in(tx: Transaction, job_id: str, namespace: str, item: WorkItemRow) -> None:
    """Store the work item of the job within this transaction."""
    await tx.run(
        "insert_work",
        job_id=job_id,
        namespace=namespace,
        project=item.project,
        capability=item.capability,
        boundary=item.boundary,
        preferred_type=item.preferred_type,
        deadline_at=item.deadline_at,
    )


def _to_item(row: Row) -> WorkItemRow:
    project, capability, boundary, preferred_type, deadline_at = row
    return WorkItemRow(
        project=project,
        capability=capability,
        boundary=boundary,
        preferred_type=preferred_type,
        deadline_at=deadline_at,
    )
