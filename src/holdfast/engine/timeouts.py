"""Timers that a job's code sets, by `wait_for`, `timeout` or `asyncio.sleep`: they strike in their turn, like results.

The event loop of a process has no hook for timers as it has one for tasks, so its two methods that set them are
replaced on the one loop. Timers of everybody else, of calls, and those that name a context of their own are the loop's
as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from holdfast.engine import places
from holdfast.engine.conductor import JOB, UNMARKED, Timer

NAME: Final = "<timer>"
"""No name of a function: the timers of a scope are counted apart from its calls."""


def watch(loop: asyncio.AbstractEventLoop) -> None:
    """Timers that job code sets on this loop are its conductor's from now on."""
    ours: Any = loop
    if not isinstance(ours.call_at, _CallAt):
        ours.call_later = _CallLater(loop, loop.call_later)
        ours.call_at = _CallAt(loop, loop.call_at)


class _CallAt:
    def __init__(self, loop: asyncio.AbstractEventLoop, before: Callable[..., asyncio.TimerHandle]) -> None:
        self._loop = loop
        self._before = before

    def __call__(
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        place = None if context is not None or JOB.get() is None else places.here()
        if place is None or place.inside is not None:
            return self._before(when, callback, *args, context=context)
        timer = Timer(place.scope.key(NAME), when, callback, args, self._loop, None)
        timer.alarm = self._before(when, place.drive.timer(timer), context=UNMARKED)
        return timer


class _CallLater:
    def __init__(self, loop: asyncio.AbstractEventLoop, before: Callable[..., asyncio.TimerHandle]) -> None:
        self._loop = loop
        self._before = before

    def __call__(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        if context is not None or JOB.get() is None:
            return self._before(delay, callback, *args, context=context)
        return self._loop.call_at(self._loop.time() + delay, callback, *args)
