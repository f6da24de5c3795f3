"""Waiting in the loop's own time, which a simulation decides."""

from __future__ import annotations

import asyncio


async def rest(seconds: float) -> None:
    """So much of the loop's time has passed."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    timer = loop.call_later(seconds, _end, over)
    try:
        await over
    finally:
        timer.cancel()


def _end(over: asyncio.Future[None]) -> None:
    """Whoever waited may have been cancelled in this very pass of the loop."""
    if not over.done():
        over.set_result(None)
