"""Sleep in the loop's own time, which a simulation controls."""

from __future__ import annotations

import asyncio


async def sleep_on_loop(seconds: float) -> None:
    """Waits for this much of the loop's time."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    timer = loop.call_later(seconds, _resolve, over)
    try:
        await over
    finally:
        timer.cancel()


def _resolve(over: asyncio.Future[None]) -> None:
    """The waiting task may have been cancelled in this very pass of the loop."""
    if not over.done():
        over.set_result(None)
