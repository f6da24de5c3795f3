"""Blocking functions, run so that a cancel really stops them.

Each call has a thread of its own: a function that hangs takes no room from others. Cancelling it raises
`ThreadInterrupted` in the thread at its next step of Python; a function that sits in a blocking call of C ends when
that call does. The canceller waits for the end, so that nothing of a cancelled call runs on unseen, but not for ever.
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
    """What the function returned. If this is cancelled, the function is ended first."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(function)
        except BaseException as error:  # whatever it is, the one who waits has to hear it
            told: Any = (
                error if isinstance(error, Exception) else RuntimeError(f"the thread ended: {error!r}")
            )
            _tell(loop, done, done.set_exception, told)
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
            done.cancelled() or done.exception()  # looked at, so that nobody complains about it
        raise


def _tell(
    loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any], tell: Callable[[Any], None], what: Any
) -> None:
    def now() -> None:
        if not done.done():
            tell(what)

    try:
        loop.call_soon_threadsafe(now)
    except RuntimeError:
        log.debug("a blocking call ended after its loop was closed")


def _interrupt(thread: threading.Thread) -> None:
    import ctypes  # for this alone, and most processes never cut a call off

    if thread.ident is not None and thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(ThreadInterrupted)
        )
