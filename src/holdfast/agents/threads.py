"""Threads for blocking functions, with cancellation that stops them.

Each call has its own thread: a function that hangs takes no room from others. Cancelling the call raises
`ThreadInterrupted` in the thread at its next Python instruction; a function inside a blocking C call ends when that
call does. The canceller waits for the end, so that a cancelled call does not run on unseen, but only for a limited
time.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

PATIENCE_S: Final = 10.0
log = logging.getLogger("holdfast.threads")


class ThreadInterrupted(BaseException):
    """Raised inside a blocking function whose call was cancelled."""


async def in_thread(function: Callable[[], T]) -> T:
    """Runs the function in a thread and returns its result. A cancelled call ends the function first."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(function)
        except BaseException as error:  # the waiting call must get any error
            reported: Any = (
                error if isinstance(error, Exception) else RuntimeError(f"the thread ended: {error!r}")
            )
            _tell(loop, done, done.set_exception, reported)
        else:
            _tell(loop, done, done.set_result, result)

    thread = threading.Thread(target=work, name="holdfast-call", daemon=True)
    thread.start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        _interrupt(thread)
        await asyncio.wait([done], timeout=PATIENCE_S)
        if not done.done():
            log.warning("a blocking call was cancelled and does not end: its thread is abandoned")
        else:
            done.cancelled() or done.exception()  # retrieved, so that asyncio does not report it
        raise


def _tell(
    loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any], tell: Callable[[Any], None], value: Any
) -> None:
    def now() -> None:
        if not done.done():
            tell(value)

    try:
        loop.call_soon_threadsafe(now)
    except RuntimeError:
        log.debug("a blocking call ended after its loop was closed")


def _interrupt(thread: threading.Thread) -> None:
    import ctypes  # needed here only: most processes never cancel a blocking call

    if thread.ident is not None and thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(ThreadInterrupted)
        )
