"""Wait set: the open waits of one run, and the suspension of the run when nothing else is left.

A wait that may take long costs nothing while it lasts. As long as other tasks of the job do something, the run
continues around it; when every task waits, the run ends, and no worker holds the job until the time has come or mail
has arrived. The next run replays to the same place, and finds there what it waited for.

A wait names its `topic`; the mailbox reader rings it. Ringing means "look again", and carries no data: so a needless
ring does no harm, and no ring is lost, because the news is already an event of the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.engine import stall_detector
from holdfast.engine.replay_scheduler import LONG_TIMER_US, UNMARKED, ReplayScheduler
from holdfast.engine.run_outcomes import Asleep
from holdfast.model.states import WaitReason
from holdfast.store.clock import Clock

FOREIGN_WORK_GRACE_S: Final = 60.0
"""How long a job is not suspended because its code waits for something that is not durable, beside a durable wait."""

_FIRST: Final = (
    WaitReason.RECONCILE,
    WaitReason.APPROVAL,
    WaitReason.BUDGET,
    WaitReason.SIGNAL,
    WaitReason.CHILD,
    WaitReason.TIMER,
)
"""The wait reason of a job whose tasks wait for different things: the first of these, people first."""


class _Wait(msgspec.Struct, eq=False):
    reason: WaitReason
    topic: str
    due_at: int | None
    rung: asyncio.Future[bool]


class WaitSet:
    """The open waits of one run. `changed` is called when one begins: perhaps now every task waits."""

    def __init__(self, clock: Clock, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._open: dict[_Wait, None] = {}
        self._foreign_since: tuple[int, float] | None = None

    async def until(self, due_at: int) -> None:
        """Waits until this time."""
        while self._clock.wall_us() < due_at:
            await self.wait_for_topic(WaitReason.TIMER, "", due_at)

    async def wait_for_topic(self, reason: WaitReason, topic: str, due_at: int | None = None) -> bool:
        """Waits until the topic is rung (True), or the time is up (False)."""
        left_us = None if due_at is None else due_at - self._clock.wall_us()
        if left_us is not None and left_us <= 0:
            return False
        loop = asyncio.get_running_loop()
        wait = _Wait(reason, topic, due_at, loop.create_future())
        timer = None
        if left_us is not None:
            timer = loop.call_later(left_us / 1_000_000, _ring, wait.rung, False, context=UNMARKED)
        self._open[wait] = None
        self._changed()
        try:
            return await wait.rung
        finally:
            del self._open[wait]
            if timer is not None:
                timer.cancel()

    def ring(self, topic: str) -> None:
        """Wakes the waits for this topic: they look again."""
        for wait in self._open:
            if wait.topic == topic:
                _ring(wait.rung, True)

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def asleep(self) -> Asleep | None:
        """The suspension that these waits mean if nothing else is left; None, if one of them is over or
        there is none."""
        if not self._open or any(wait.rung.done() for wait in self._open):
            return None
        reasons = {wait.reason for wait in self._open}
        due_times = [wait.due_at for wait in self._open if wait.due_at is not None]
        return Asleep(next(reason for reason in _FIRST if reason in reasons), min(due_times, default=None))

    def find_suspension(
        self, scheduler: ReplayScheduler, tasks: set[asyncio.Task[Any]], now_us: int
    ) -> Asleep | None:
        """The suspension, if nothing is left but long waits; None, if the run continues."""
        timer_us = scheduler.next_timer_us
        asleep = self.asleep()
        if self.is_open and asleep is None:
            return None  # one of the waits is over
        if timer_us is not None:
            if timer_us - now_us < LONG_TIMER_US:
                return None
            asleep = Asleep(WaitReason.TIMER, timer_us) if asleep is None else asleep.wake_by(timer_us)
        if any(map(stall_detector.waits_for_foreign, tasks)):
            return None if timer_us is not None else self._after_grace(scheduler, asleep)
        return asleep

    def _after_grace(self, scheduler: ReplayScheduler, asleep: Asleep | None) -> Asleep | None:
        """The suspension, if the code has waited beside it for something that is not durable for too long."""
        now, deliveries = scheduler.loop.time(), scheduler.deliveries
        if self._foreign_since is None or self._foreign_since[0] != deliveries:
            self._foreign_since = (deliveries, now)
            scheduler.look_later(FOREIGN_WORK_GRACE_S)
            return None
        return asleep if now - self._foreign_since[1] >= FOREIGN_WORK_GRACE_S else None


def _ring(rung: asyncio.Future[bool], result: bool) -> None:
    if not rung.done():
        rung.set_result(result)
