"""Watchdog: reports code that blocks the event loop, with the author's line and what to do about it.

All jobs of a worker share one loop. A tool that blocks it (a library without await, an endless computation) holds up
every job here. Its lease is renewed meanwhile (`renewal_thread`), so no job is lost by that, but none makes progress
either. The loop cannot report this itself, so a thread does:

    every twelfth of a lease   asks the loop to answer (or of the limit, if that is shorter)
    no answer for a third      warns, with the author's frames of what the loop's thread is doing
    no answer for the limit    the worker gives up its jobs, so that others can run them (`on_limit`)
    an answer at last          reports that the block has ended, and how long it was (`on_answer`)

The watchdog counts its own rounds and not the clock. A process that was frozen as a whole, watchdog and loop together,
has not blocked itself, and is not reported. Under a debugger the limit does not count: a breakpoint blocks the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Final

from holdfast.engine.tracebacks import extract_stack, format_frames

ROUNDS_PER_LEASE: Final = 12
PATIENCE_ROUNDS: Final = ROUNDS_PER_LEASE // 3

BLOCKING_LIMIT_S: Final = 300.0
"""How long code may block the event loop before the worker gives up its jobs."""

_DEBUGGERS: Final = frozenset({"pydevd", "debugpy"})

log = logging.getLogger("holdfast.watchdog")


REMEDY: Final = (
    "Move the blocking call into a plain `def` tool or step (it runs in a thread of its own), "
    "or await it: `await asyncio.to_thread(call, …)` inside a tool, or an async client."
)


def format_blocking_code(frame: FrameType) -> str:
    """The author's frames of a stack; the whole stack, if it has none of the author's."""
    frames = format_frames(extract_stack(frame))
    return "\n".join(frames) or "".join(traceback.format_stack(frame)).rstrip()


def _frame_of(thread: int) -> FrameType | None:
    return sys._current_frames().get(thread)  # noqa: SLF001 - the only way to see another thread's stack


def _describe(frame: FrameType | None) -> str:
    return "  its thread is gone" if frame is None else format_blocking_code(frame)


def _is_debugged(frame: FrameType | None) -> bool:
    """Whether a debugger has stopped the code, or may have."""
    if not _DEBUGGERS.isdisjoint(sys.modules):
        return True
    while frame is not None:
        if frame.f_globals.get("__name__") in {"pdb", "bdb"}:
            return True
        frame = frame.f_back
    return False


class Watchdog:
    """Watches one loop at a time, from `start` (called in the loop) to `stop`."""

    def __init__(
        self,
        *,
        limit_s: float = BLOCKING_LIMIT_S,
        on_limit: Callable[[str], None] = lambda _report: None,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_limit` is called on the watchdog's thread, with the place where the loop is blocked."""
        self._limit_s = limit_s
        self._on_limit = on_limit
        self._on_answer = on_answer
        self._is_over_limit = False
        self._over = threading.Event()
        self._asked = False
        self._rounds = 0
        self._round_s = 0.0
        self._barked = False

    def start(self, loop: asyncio.AbstractEventLoop, ttl_us: int) -> None:
        """Starts to watch the loop; `ttl_us` is its lease time."""
        self._over = threading.Event()
        self._asked, self._barked, self._is_over_limit, self._rounds = False, False, False, 0
        self._round_s = min(ttl_us / 1_000_000, self._limit_s) / ROUNDS_PER_LEASE
        arguments = (loop, threading.get_ident(), self._over)
        threading.Thread(target=self._watch, args=arguments, name="holdfast-watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stops watching. The thread ends by itself, at once."""
        self._over.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, watched: int, over: threading.Event) -> None:
        while not over.wait(self._round_s) and not loop.is_closed():
            if not self._asked:
                self._asked, self._rounds = True, 0
                with contextlib.suppress(RuntimeError):  # it has just been closed
                    loop.call_soon_threadsafe(self._note_answer)
                continue
            self._rounds += 1
            if self._rounds >= PATIENCE_ROUNDS and not self._barked:
                self._barked = True
                self._report_block(watched)
            if self._rounds * self._round_s >= self._limit_s and not self._is_over_limit:
                frame = _frame_of(watched)
                if not _is_debugged(frame):
                    self._is_over_limit = True
                    self._on_limit(_describe(frame))

    def _report_block(self, watched: int) -> None:
        log.warning(
            "the event loop has not answered for %.1f s: no job of this worker makes progress while this code blocks "
            "it:\n%s\n%s",
            self._rounds * self._round_s,
            _describe(_frame_of(watched)),
            REMEDY,
        )

    def _note_answer(self) -> None:
        """Called by the loop: its answer."""
        if self._barked:
            self._barked = False
            log.warning("the event loop runs again, after about %.1f s", self._rounds * self._round_s)
        if self._is_over_limit:
            self._is_over_limit = False
            self._on_answer()
        self._asked = False
