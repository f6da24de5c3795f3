"""Watchdog: reports code that blocks the event loop, with the author's line and what to do about it.

Everything of a worker lives in one loop: its leases too. A tool that blocks it (a library without await, an endless
computation) holds up every job here, and after a while the leases are over. The loop cannot report this itself, so a
thread does:

    every twelfth of a lease   ask the loop to answer
    no answer for a third      warn, with the author's frames of what the loop's thread is doing
    an answer at last          say that it is over, and for how long it was

The watchdog counts its own rounds and not the clock. A process that was frozen as a whole, watchdog and loop together,
has not blocked itself, and is not reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import traceback
from types import FrameType
from typing import Final

from holdfast.engine.tracebacks import extract_stack, format_frames

ROUNDS_PER_LEASE: Final = 12
PATIENCE_ROUNDS: Final = ROUNDS_PER_LEASE // 3

log = logging.getLogger("holdfast.watchdog")


REMEDY: Final = (
    "Move the blocking call into a plain `def` tool or step (it runs in a thread of its own), "
    "or await it: `await asyncio.to_thread(call, …)` inside a tool, or an async client."
)


def format_blocking_code(frame: FrameType) -> str:
    """The author's frames of a stack; all of it, if the author has none there."""
    frames = format_frames(extract_stack(frame))
    return "\n".join(frames) or "".join(traceback.format_stack(frame)).rstrip()


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
        log.warning(
            "the event loop has not answered for %.1f s: no lease is renewed while this code blocks it:\n%s\n%s",
            self._rounds * self._round_s,
            "  its thread is gone" if frame is None else format_blocking_code(frame),
            REMEDY,
        )

    def _answer(self) -> None:
        """The loop calls this."""
        if self._barked:
            self._barked = False
            log.warning("the event loop goes on, after about %.1f s", self._rounds * self._round_s)
        self._asked = False
