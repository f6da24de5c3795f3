"""Event-loop delay: a timer measures how late the loop runs it."""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.server.metrics.meter import Metrics

EVERY_S: Final = 0.25


class LoopWatch:
    """Measures from `start`, called in the loop, to `stop`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._handle: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self) -> None:
        self._next(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + EVERY_S
        self._handle = loop.call_at(self._due, self._came, loop)

    def _came(self, loop: asyncio.AbstractEventLoop) -> None:
        self._metrics.late(max(0.0, loop.time() - self._due))
        self._next(loop)
