"""Store statistics in memory."""

from __future__ import annotations

from holdfast.model.crash_suspects import is_unclaimed
from holdfast.model.jobs import JobHead
from holdfast.model.lease import is_live
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import Status
from holdfast.model.store_stats import QueueStats, StoreStats
from holdfast.store.memory.state import MemoryState

_OPEN = (Status.PENDING, Status.RUNNING, Status.WAITING)


class MemoryStoreStats:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def read(self) -> StoreStats:
        clock, tables = self._state.clock, self._state.tables
        now = clock.wall_us()
        heads = [row.head for row in tables.jobs.values() if row.head.status in _OPEN]
        groups: dict[tuple[str, str, str], list[JobHead]] = {}
        for head in heads:
            groups.setdefault((head.queue, head.status, head.wait_reason or ""), []).append(head)
        ready = [head.ready_at for head in heads if head.status is Status.PENDING and head.ready_at <= now]
        is_valid = [entry.expires_at > now for entry in tables.cache.values()]
        return StoreStats(
            now=now,
            lines=tuple(
                QueueStats(
                    group[0].queue,
                    group[0].status,
                    group[0].wait_reason,
                    len(group),
                    max(head.takeovers for head in group),
                )
                for _, group in sorted(groups.items())
            ),
            oldest_ready_us=now - min(ready, default=now),
            expired=sum(
                head.status is Status.RUNNING
                and not is_live(
                    head.status,
                    head.lease_expires_at,
                    head.lease_boot,
                    tick=clock.tick_us(),
                    this_boot=clock.boot(),
                )
                for head in heads
            ),
            uncertain=sum(
                call.status is CallStatus.UNCERTAIN
                for row in tables.jobs.values()
                for call in row.calls.values()
            ),
            suspects=sum(is_unclaimed(row.head, row.events[-1].at, now) for row in tables.jobs.values()),
            cached=sum(is_valid),
            cached_over=len(is_valid) - sum(is_valid),
        )
