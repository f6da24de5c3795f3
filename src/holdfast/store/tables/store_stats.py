"""Store statistics over SQL."""

from __future__ import annotations

from holdfast.model.crash_suspects import UNCLAIMED_US
from holdfast.model.states import Status, WaitReason
from holdfast.model.store_stats import QueueStats, StoreStats
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.tables.payloads import to_enum


class SqlStoreStats:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def read(self) -> StoreStats:
        async def work(tx: Transaction) -> StoreStats:
            lines = await tx.rows("count_unfinished_jobs")
            numbers = await tx.row("read_store_stats", unclaimed_us=UNCLAIMED_US)
            size = await tx.row("read_store_size")
            assert numbers is not None, "counting always gives a row"
            assert size is not None, "so does a size"
            now, oldest, expired, uncertain, suspects, cached, cached_over = numbers
            return StoreStats(
                now=now,
                lines=tuple(sorted(map(_to_queue_stats, lines), key=_get_sort_key)),
                oldest_ready_us=0 if oldest is None else now - oldest,
                expired=expired,
                uncertain=uncertain,
                suspects=suspects,
                cached=cached,
                cached_over=cached_over,
                bytes=size[0],
            )

        return await self._executor.read(work, snapshot=True)


def _to_queue_stats(row: Row) -> QueueStats:
    queue, status, reason, jobs, takeovers = row
    reason = None if reason is None else to_enum(WaitReason, reason)
    return QueueStats(queue, to_enum(Status, status), reason, jobs, takeovers)


def _get_sort_key(line: QueueStats) -> tuple[str, str, str]:
    return line.queue, line.status, line.wait_reason or ""
