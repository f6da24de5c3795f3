"""What a run waits for that may take long: a time, a signal, a child, a person's word.

Such a wait costs nothing while it lasts. As long as other tasks of the job do something, the run goes on around it;
when every task waits, the run ends and nobody holds the job until the time has come or a letter has. The next run
replays to the same place, and finds there what it waited for.

A wait names its `topic`: whoever reads a letter rings it. Ringing says "look again", never what to see; so a bell that
rings for nothing does no harm, and none that rang is lost, because what it announced is a fact of the journal already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.engine.endings import Asleep
from holdfast.engine.replay_scheduler import UNMARKED
from holdfast.model.states import WaitReason
from holdfast.store.clock import Clock

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
