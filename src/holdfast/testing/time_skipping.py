"""Time-skipping clock: while every job of a store sleeps, time skips at once to the next due time.

    clock = TimeSkippingClock(SystemClock())
    left_us = await idle_for_us(store, clock)     # None: a job runs, or no job wakes by itself
    clock.advance_us(left_us)

No lease expires in skipped time, because time is skipped only while no worker holds a job.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from holdfast.model.jobs import JobFilter, JobHead
from holdfast.model.lease import LEASE_TTL_US
from holdfast.model.states import HELD, TERMINAL, Status, WaitReason
from holdfast.model.time import Duration, parse_duration
from holdfast.store.clock import Clock
from holdfast.store.contract import Store

STILL: Final = HELD | {
    WaitReason.APPROVAL,
    WaitReason.BUDGET,
    WaitReason.JOINED,
    WaitReason.RECONCILE,
}
"""Waits for a person, which skipped time does not end."""


class TimeSkippingClock:
    """The time of another clock, plus the skipped time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._skipped_us = 0
        self.on_skip: Callable[[], None] = lambda: None
        """Called after time was skipped: something may be due now."""

    def wall_us(self) -> int:
        return self._clock.wall_us() + self._skipped_us

    def tick_us(self) -> int:
        return self._clock.tick_us() + self._skipped_us

    def boot(self) -> str:
        return self._clock.boot()

    def advance(self, duration: Duration) -> None:
        """Skip so much time ("3d", "90s", a timedelta)."""
        self.advance_us(parse_duration(duration))

    def advance_us(self, us: int) -> None:
        assert us >= 0, f"time does not go back: {us}"
        self._skipped_us += us
        self.on_skip()


async def list_open_heads(store: Store) -> AsyncIterator[JobHead]:
    """The head of every job that has not ended."""
    cursor: str | None = None
    while True:
        page = await store.jobs.list(JobFilter(), limit=1000, cursor=cursor)
        for record in page:
            if record.status not in TERMINAL:
                yield await store.jobs.head(record.job_id)
        cursor = page.next
        if cursor is None:
            return


async def find_idle_us(
    store: Store, clock: Clock, gone: Callable[[str], bool] = lambda _worker: False
) -> int | None:
    """How long until the next job is due. None: a worker is running a job, a job is due now, or no job wakes by itself.

    `gone` says whether a worker is dead: its jobs count as due after the time of a lease.
    """
    left: list[int] = []
    async for head in list_open_heads(store):
        match head.status:
            case Status.PENDING:
                left.append(head.ready_at - clock.wall_us())
            case Status.RUNNING if gone(head.lease_owner):
                left.append(LEASE_TTL_US if head.lease_expires_at else 0)
            case Status.WAITING if head.wake_at is not None and head.wait_reason not in STILL:
                left.append(head.wake_at - clock.wall_us())
            case Status.WAITING:
                pass
            case _:
                return None
    soonest = min(left, default=None)
    return None if soonest is None or soonest <= 0 else soonest
