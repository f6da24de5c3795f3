"""Somebody who notices that the event loop stands still.

Everything of a worker lives in one loop: its leases too. A tool that blocks it (a library without await, an endless
computation) holds up every job here, and after a while they are all somebody else's. From inside the loop nobody can
say so. A thread can:

    every twelfth of a lease   ask the loop to answer
    no answer for a third      say so, with what the loop's thread is doing
    an answer at last          say that it is over, and for how long it was

The dog counts its own rounds and not the clock. A process that was frozen as a whole, dog and loop together, has not
blocked itself, and is not told so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import traceback
from typing import Final

ROUNDS_PER_LEASE: Final = 12
PATIENCE_ROUNDS: Final = ROUNDS_PER_LEASE // 3

log = logging.getLogger("holdfast.watchdog")


class Watchdog:
    """Watches one loop at a time, from `start` (called in the loop) to `stop`."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._asked = False
        self._rounds = 0
        self._round_s = 0.0
        self._barked = False

    def start(self, loop: asyncio.AbstractEventLoop, ttl_us: int) -> None:
        """From now on the loop is watched; its leases last so long."""
        self._over = threading.Event()
        self._asked, self._barked, self._rounds = False, False, 0
        self._round_s = ttl_us / ROUNDS_PER_LEASE / 1_000_000
        told = (loop, threading.get_ident(), self._over)
        threading.Thread(target=self._watch, args=told, name="holdfast-watchdog", daemon=True).start()

    def stop(self) -> None:
        """Nobody is watched any more. The thread ends by itself, at once."""
        self._over.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, watched: int, over: threading.Event) -> None:
        while not over.wait(self._round_s) and not loop.is_closed():
            if not self._asked:
                self._asked, self._rounds = True, 0
                with contextlib.suppress(RuntimeError):  # it was closed this moment
                    loop.call_soon_threadsafe(self._answer)
                continue
            self._rounds += 1
            if self._rounds >= PATIENCE_ROUNDS and not self._barked:
                self._barked = True
                self._bark(watched)

    def _bark(self, watched: int) -> None:
        frame = sys._current_frames().get(watched)  # noqa: SLF001 - the only way to see another thread's stack
        doing = "its thread is gone\n" if frame is None else "".join(traceback.format_stack(frame))
        log.warning(
            "the event loop has not answered for %.1f s: its leases are not renewed while it is blocked, here:\n%s",
            self._rounds * self._round_s,
            doing.rstrip(),
        )

    def _answer(self) -> None:
        """In the loop."""
        if self._barked:
            self._barked = False
            log.warning("the event loop goes on, after about %.1f s", self._rounds * self._round_s)
        self._asked = False
