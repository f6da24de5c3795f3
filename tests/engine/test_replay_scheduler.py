"""The scheduler's look at the event loop, while other threads use that loop too."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from holdfast.engine.replay_scheduler import ReplayScheduler
from holdfast.model.replay_history import History
from holdfast.store.clock import SystemClock


class Meanwhile:
    """The context of a callback; whoever looks into it is overtaken by another thread that schedules something."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.looks = 0

    def get(self, _variable: contextvars.ContextVar[Any]) -> None:
        self.looks += 1
        other = threading.Thread(target=self._loop.call_soon_threadsafe, args=(lambda: None,))
        other.start()
        other.join()

    def run(self, callback: Callable[..., object], *args: Any) -> object:
        return callback(*args)


async def test_what_other_threads_schedule_while_it_looks_does_not_stop_it() -> None:
    """Goal: no job hangs because a reader's answer came at the wrong moment. Method: while a callback is looked at,
    another thread schedules something."""
    loop, rested = asyncio.get_running_loop(), []

    def rest(_is_polling: bool) -> bool:
        rested.append(True)
        return False

    scheduler = ReplayScheduler(loop, SystemClock(), History(), rest)
    scheduler.look()
    looked_at: Any = loop.call_soon(lambda: None)
    looked_at._context = meanwhile = Meanwhile(loop)
    for _ in range(3):
        await asyncio.sleep(0)
    assert meanwhile.looks == 1
    assert rested, "the look broke off, and nobody looks again"
