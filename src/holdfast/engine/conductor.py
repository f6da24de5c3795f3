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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

JOB: Final[contextvars.ContextVar[object]] = contextvars.ContextVar("holdfast_job", default=None)
"""Whose code runs: a job's own, or (anything else) none that counts."""

PASSES: Final = 16
"""How long a loop that hides its ready queue is given to come to rest."""

READY: Final = "_ready"
"""The ready queue of asyncio's own loops: a deque of handles."""

_UNMARKED: Final = contextvars.Context()


class Conductor:
    """Hands results over. `mark` is what JOB holds in the job's code; `idle` is called when all wait and nothing can be
    handed over."""

    def __init__(self, loop: asyncio.AbstractEventLoop, mark: object, idle: Callable[[], None]) -> None:
        self._loop = loop
        self._mark = mark
        self._idle = idle
        self._waiting: dict[int, asyncio.Future[None] | None] = {}
        self._pumping = False
        self._passes = 0

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

    async def never(self, seq: int) -> None:
        """The call stays open until the code cancels it, as it did the first time; nothing later passes it."""
        self._waiting[seq] = None
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

    def look(self) -> None:
        """Soon, once the job's code has come to rest, the next result is handed over."""
        self._passes = 0
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump, context=_UNMARKED)

    def _pump(self) -> None:
        if self._is_busy():
            self._loop.call_soon(self._pump, context=_UNMARKED)
            return
        self._pumping = False
        if not self._waiting:
            self._idle()
            return
        future = self._waiting[min(self._waiting)]
        if future is not None and not future.done():
            future.set_result(None)
            self.look()

    def _is_busy(self) -> bool:
        """Whether code of the job is about to run."""
        ready = getattr(self._loop, READY, None)
        if ready is None:
            self._passes += 1
            return self._passes < PASSES
        return any(handle._context.get(JOB) is self._mark for handle in ready)  # noqa: SLF001 - no other way to see it
