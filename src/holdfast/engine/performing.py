"""A call's own code, run once: within its time, with its voice, watched."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.engine.voices import speaking
from holdfast.errors import Refused

if TYPE_CHECKING:
    from holdfast.engine.asked import Asked
    from holdfast.engine.drive import Drive


async def performed(
    drive: Drive, asked: Asked, step_key: str, key: str, longest_us: int | None
) -> tuple[Any, Exception | None]:
    """What it returned, or what it raised."""
    timed = drive.meter.call(drive.owner, asked.name, asked.terms.effect, step_key)
    how, error = "cancelled", None
    try:
        with speaking(drive.outlet, step_key):
            value = await _run(asked, key, longest_us)
        how = "succeeded"
        return value, None
    except Exception as raised:
        how, error = "refused" if isinstance(raised, Refused) else "failed", raised
        return None, raised
    finally:
        timed.over(how, error)


async def _run(asked: Asked, key: str, longest_us: int | None) -> Any:
    limit_us = asked.terms.reads_within_us if longest_us is None else longest_us
    if limit_us is None:
        return await asked.run(key)
    async with asyncio.timeout(limit_us / 1_000_000):
        return await asked.run(key)
