"""Event loop with virtual time: waiting moves the clock, and nothing sleeps.

    with SimLoop() as loop:
        loop.run_until_complete(main())       # an hour of `loop.time()` passes in no time

When nothing is ready and nothing is scheduled, nothing can happen any more: the loop raises `Deadlock`, which makes
every test on this loop a test of liveness too.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from typing import Self


class Deadlock(Exception):
    """All tasks wait, and nothing is scheduled that could wake one."""


class VirtualSelector(selectors.SelectSelector):
    """Never blocks: a wait moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise Deadlock("nothing is ready and no timer is set")
            self.now += max(timeout, 0.0)
        return ready


class SocketlessSelector(VirtualSelector):
    """For a loop without real I/O: it does not poll."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set")
        self.now += max(timeout, 0.0)
        return []


class SimLoop(asyncio.SelectorEventLoop):
    """`selector` defines what waiting is; `SocketlessSelector` is faster if there is no real I/O."""

    def __init__(self, selector: VirtualSelector | None = None) -> None:
        self._virtual = VirtualSelector() if selector is None else selector
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def clock_time(self) -> float:
        """The loop's time, also inside a job's code, where `time` returns job time."""
        return self._virtual.now

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LoopClock:
    """A clock on a loop: wall time and ticks are the loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wall_us: int = 1_700_000_000_000_000) -> None:
        # Not `loop.time`, which is job time inside a job's code.
        self._time = functools.partial(type(loop).time, loop)
        self._start_us = wall_us

    def wall_us(self) -> int:
        return self._start_us + self.tick_us()

    def tick_us(self) -> int:
        return int(self._time() * 1_000_000)

    def boot(self) -> str:
        return "simulated"
