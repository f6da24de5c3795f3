"""Who hears its result next: the order in which a job's code sees the world.

The problem
    Ordinary asyncio code branches on the order in which results arrive: the first of `as_completed`, who appends to a
    list before whom, whether a timeout was quicker. A job that is resumed gets all its old results at once. If they
    came in any other order than the first time, the code could take another way.

The method
    One rule for the first run and for every replay: **results are handed over one at a time, in the order of their
    `seq`, and only while the job's code has nothing left to do.** Between two results the code runs until every one of
    its tasks waits. What it does there depends on nothing but the results it has been given, so the same results in
    the same order lead to the same code.

    "Nothing left to do" is read from the event loop: no callback of the job is in its ready queue. Every callback that
    job code schedules carries the context of that code, and with it the mark of the job. Callbacks of calls that run
    (inside a step the mark is another) and of other jobs do not count. A job with one task needs none of this: while
    that task waits for its result, nothing else of the job can run.

    Timers that the code sets (`wait_for`, `timeout`, `asyncio.sleep`) stand in the same line: one that is due strikes
    at rest, when no result can be handed over. Which timer made the code give a call up is recorded with that fact,
    and in replay it strikes there, not by the clock: a replay that is slower or quicker than the first run goes the
    same way.

What could go wrong
    A call was cancelled the first time (`wait_for`, `timeout`). Its record says so and has a `seq` too: in replay it
    stays open until the code cancels it again, and nothing recorded later is handed over before.
    The loop is not asyncio's own and hides its ready queue (uvloop): then a result waits a fixed number of passes.
    Chains of callbacks grow by one link a pass, whatever else the loop does, so any chain up to it has come to its end.
    Code waits for something that is not durable (a socket, a real sleep): the order of that against results is chance,
    the first time and every time. The place for such things is a step.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

JOB: Final[contextvars.ContextVar[object]] = contextvars.ContextVar("holdfast_job", default=None)
"""Whose code runs: a job's own, or (anything else) none that counts."""

PASSES: Final = 16
"""How long a loop that hides its ready queue is given to come to rest."""

READY: Final = "_ready"
"""The ready queue of asyncio's own loops: a deque of handles."""

PATIENCE: Final = 1000
"""A timer that is due strikes after so many passes of the loop even if the code never comes to rest: it may be spinning
until the timer strikes."""

UNMARKED: Final = contextvars.Context()


class Timer(asyncio.TimerHandle):
    """A timer that the job's code has set. When its time comes it is due; it strikes in its turn."""

    def __init__(
        self,
        key: str,
        when: float,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self.key = key
        self.alarm: asyncio.TimerHandle | None = None
        self.gone: Callable[[], None] = lambda: None

    def cancel(self) -> None:
        asyncio.Handle.cancel(self)  # it is in nobody's queue but ours
        if self.alarm is not None:
            self.alarm.cancel()
        self.gone()

    def strike(self) -> None:
        if self.alarm is not None:
            self.alarm.cancel()
        self.gone()
        if not self.cancelled():
            self._run()


class Conductor:
    """Hands results over. `mark` is what JOB holds in the job's code; `idle` is called when all wait and nothing can be
    handed over. `struck` is the timer of the code that struck last."""

    def __init__(self, loop: asyncio.AbstractEventLoop, mark: object, idle: Callable[[], None]) -> None:
        self._loop = loop
        self._mark = mark
        self._idle = idle
        self._waiting: dict[int, asyncio.Future[None] | str | None] = {}
        self._timers: dict[str, Timer] = {}
        self._due: dict[str, None] = {}
        self.struck = ""
        self._pumping = False
        self._passes = 0
        self._busy_passes = 0

    async def turn(self, seq: int) -> None:
        """It is this result's turn."""
        assert seq not in self._waiting, f"result {seq} is handed over once"
        future = self._loop.create_future()
        self._waiting[seq] = future
        self.look()
        try:
            await future
        finally:
            self._waiting.pop(seq, None)

    async def never(self, seq: int, by: str) -> None:
        """The call stays open until the code cancels it, as it did the first time; nothing later passes it. If it was a
        timer of the code that did it, that timer strikes when this is next, whatever the clock says."""
        self._waiting[seq] = by
        self.look()
        try:
            await self._loop.create_future()
        finally:
            del self._waiting[seq]
            self.look()

    @contextmanager
    def expecting(self, seq: int) -> Iterator[None]:
        """This result has its place but waits for the disk; nothing later passes it."""
        self._waiting[seq] = None
        try:
            yield
        finally:
            del self._waiting[seq]
            self.look()

    def timer(self, timer: Timer) -> Callable[[], None]:
        """The code has set this timer. It is due when somebody calls what is given back; it strikes once nothing else
        is to be handed over."""
        self._timers[timer.key] = timer
        timer.gone = lambda: self._forget(timer.key)
        return lambda: self._is_due(timer.key)

    def _is_due(self, key: str) -> None:
        if key in self._timers:
            self._due[key] = None
            self.look()

    def _forget(self, key: str) -> None:
        self._timers.pop(key, None)
        self._due.pop(key, None)

    def look(self) -> None:
        """Soon, once the job's code has come to rest, the next result is handed over."""
        self._passes = 0
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump, context=UNMARKED)

    def _pump(self) -> None:
        if self._is_busy():
            self._loop.call_soon(self._pump, context=UNMARKED)
            self._busy_passes += 1
            if self._due and self._busy_passes > PATIENCE:
                self._strike(next(iter(self._due)))
            return
        self._pumping = False
        self._busy_passes = 0
        next_one = self._waiting[min(self._waiting)] if self._waiting else None
        if isinstance(next_one, asyncio.Future):
            if not next_one.done():
                next_one.set_result(None)
                self.look()
        elif isinstance(next_one, str) and next_one in self._timers:
            self._strike(next_one)
        elif self._due:
            self._strike(next(iter(self._due)))
        elif not self._waiting:
            self._idle()

    def _strike(self, key: str) -> None:
        self.struck = key
        self._timers[key].strike()
        self.look()

    def _is_busy(self) -> bool:
        """Whether code of the job is about to run."""
        ready = getattr(self._loop, READY, None)
        if ready is None:
            self._passes += 1
            return self._passes < PASSES
        # A copy: other threads schedule what they have to tell, and a queue that changes cannot be walked through.
        return any(handle._context.get(JOB) is self._mark for handle in list(ready))  # noqa: SLF001 - no other way
