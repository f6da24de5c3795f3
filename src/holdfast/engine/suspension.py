"""Suspension: waits of a job that may take long, for a timer, a signal, a child or a decision of a person.

Such a wait costs nothing while it lasts. As long as other tasks of the job do something, the run goes on around it;
when every task waits, the run ends and nobody holds the job until the time has come or a letter has. The next run
replays to the same place, and finds there what it waited for.

A wait names its `topic`: whoever reads a letter rings it. Ringing says "look again", never what to see; so a bell that
rings for nothing does no harm, and none that rang is lost, because what it announced is a fact of the journal already.

A durable sleep is a timer in the store, and an event when it has fired.

A signal is kept from the moment it is accepted, whether or not anybody waits for it yet. Each is taken by one wait,
those of one name in the order they were sent, and which wait took which is a fact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.engine.durable_call import digest_of
from holdfast.engine.replay_scheduler import UNMARKED
from holdfast.engine.run_outcomes import Asleep
from holdfast.model.append import NOTHING, Extras, Timer
from holdfast.model.events import SignalTaken, TimerFired, TimerSet
from holdfast.model.replay_history import Recorded
from holdfast.model.states import WaitReason
from holdfast.store.clock import Clock

if TYPE_CHECKING:
    from holdfast.engine.execution import Execution

_FIRST: Final = (
    WaitReason.RECONCILE,
    WaitReason.APPROVAL,
    WaitReason.BUDGET,
    WaitReason.SIGNAL,
    WaitReason.CHILD,
    WaitReason.TIMER,
)
"""The reason a job shows when its tasks wait for different things: people first."""


class _Wait(msgspec.Struct, eq=False):
    reason: WaitReason
    topic: str
    due_at: int | None
    rung: asyncio.Future[bool]


class Waits:
    """The open waits of one run. `changed` is called when one begins: perhaps now every task waits."""

    def __init__(self, clock: Clock, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._open: dict[_Wait, None] = {}

    async def until(self, due_at: int) -> None:
        """The instant has come, and the run is still on."""
        while self._clock.wall_us() < due_at:
            await self.look_again(WaitReason.TIMER, "", due_at)

    async def look_again(self, reason: WaitReason, topic: str, due_at: int | None = None) -> bool:
        """Something was heard of the topic (True), or the time is up (False)."""
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
        """Whoever waits for this looks again."""
        for wait in self._open:
            if wait.topic == topic:
                _ring(wait.rung, True)

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def asleep(self) -> Asleep | None:
        """How the run ends if nothing but these waits is left; None if one of them is over or there is none."""
        if not self._open or any(wait.rung.done() for wait in self._open):
            return None
        reasons = {wait.reason for wait in self._open}
        due = [wait.due_at for wait in self._open if wait.due_at is not None]
        return Asleep(next(one for one in _FIRST if one in reasons), min(due, default=None))


def _ring(rung: asyncio.Future[bool], heard: bool) -> None:
    if not rung.done():
        rung.set_result(heard)


async def sleep(drive: Execution, us: int) -> None:
    """So much time has passed since the code first came here, whatever happened meanwhile."""
    key, digest = drive.place().scope.key("sleep"), digest_of(us)
    recorded = drive.history.find(key, digest) or await drive.adopt(key, digest)
    if recorded is not None and recorded.settled and await drive.past(recorded):
        return
    key, due_at = set_timer(drive, key, digest, us, recorded)
    over = Extras(timers=(Timer(key, None),))
    async with drive.noting_cancel(key, digest, 0, over):
        await drive.waits.until(due_at)
        fired = drive.recorder.record(TimerFired(key), extras=over, progress=True, at=drive.job_time(due_at))
        await drive.handed_over(fired)


def set_timer(drive: Execution, key: str, digest: str, us: int, recorded: Recorded | None) -> tuple[str, int]:
    """The key of this timer, and when it is due: as it was set the first time."""
    if recorded is not None and recorded.due_at is not None:
        key, due_at = recorded.step_key, recorded.due_at
        if recorded.was_cancelled:  # that was void, and has removed the timer from the store
            drive.note(TimerSet(key, due_at, digest), extras=Extras(timers=(Timer(key, due_at),)))
        return key, due_at
    due_at = drive.latest_us() + us
    drive.note(TimerSet(key, due_at, digest), extras=Extras(timers=(Timer(key, due_at),)))
    return key, due_at


async def wait(drive: Execution, name: str, timeout_us: int | None = None) -> Any:
    """The body of the next signal of this name; TimeoutError, if none came in time since the code first came here."""
    key, digest = drive.place().scope.key(f"wait:{name}"), digest_of([name, timeout_us])
    recorded = drive.history.find(key, digest) or await drive.adopt(key, digest)
    if recorded is not None and recorded.settled and await drive.past(recorded):
        return read_result(recorded)
    due_at = None
    if timeout_us is not None:
        key, due_at = set_timer(drive, key, digest, timeout_us, recorded)
    return await take(drive, key, digest, name, WaitReason.SIGNAL, due_at, has_timer=due_at is not None)


async def take(
    drive: Execution,
    key: str,
    digest: str,
    name: str,
    reason: WaitReason,
    due_at: int | None,
    *,
    has_timer: bool = False,
) -> Any:
    """The body of the next signal of this name, which no other wait gets; TimeoutError, if it is late."""
    over = Extras(timers=(Timer(key, None),)) if has_timer else NOTHING
    async with drive.noting_cancel(key, digest, 0, over):
        signal, in_time = drive.history.next_signal(name), True
        while signal is None and in_time:
            in_time = await drive.waits.look_again(reason, topic(name), due_at)
            signal = drive.history.next_signal(name)
        taken = SignalTaken(key, name, None if signal is None else signal.mail_seq, digest)
        at = drive.job_time(due_at) if signal is None and due_at is not None else None
        # Between the look and this line nothing else runs: no two waits take one signal.
        stamp = drive.note(taken, extras=over, progress=True, at=at)
        await drive.handed_over(stamp)
    recorded = drive.history.find(key, digest)
    assert recorded is not None
    return read_result(recorded)


def read_result(recorded: Recorded) -> Any:
    """What came of a wait that is over."""
    if recorded.error is not None:
        raise TimeoutError(recorded.error["message"])
    return recorded.result


def topic(name: str) -> str:
    return f"signal:{name}"
