"""Waiting in the loop's own time, which a simulation decides."""

from __future__ import annotations

import asyncio


async def rest(seconds: float) -> None:
    """So much of the loop's time has passed."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    timer = loop.call_later(seconds, over.set_result, None)
    try:
        await over
    finally:
        timer.cancel()
