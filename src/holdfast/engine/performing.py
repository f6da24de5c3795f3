"""A call's own code, run once: within its time, with its voice, watched."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.engine.replay_scheduler import JOB
from holdfast.engine.voices import VOICE, Voice
from holdfast.errors import Refused

if TYPE_CHECKING:
    from holdfast.engine.asked import Asked
    from holdfast.engine.drive import Drive
    from holdfast.engine.task_scopes import TaskScope


async def performed(
    drive: Drive, asked: Asked, place: TaskScope, step_key: str, key: str, longest_us: int | None
) -> tuple[Any, Exception | None]:
    """What it returned, or what it raised. Every step passes here: what could be a block of its own is written out."""
    timed = drive.meter.call(drive.owner, asked.name, asked.terms.effect, step_key)
    how, error = "cancelled", None
    drive.running += 1
    place.inside, left = step_key, JOB.set(drive.scheduler.inside)
    voice = drive.outlet.voice(step_key) if drive.outlet is not None else Voice(None, step_key, 1)
    spoken = VOICE.set(voice)
    try:
        limit_us = asked.terms.reads_within_us if longest_us is None else longest_us
        if limit_us is None:
            value = await asked.run(key)
        else:
            async with asyncio.timeout(limit_us / 1_000_000):
                value = await asked.run(key)
        how = "succeeded"
        return value, None
    except Exception as raised:
        how, error = "refused" if isinstance(raised, Refused) else "failed", raised
        return None, raised
    finally:
        voice.is_over = True
        VOICE.reset(spoken)
        timed.over(how, error)
        JOB.reset(left)
        place.inside = None
        drive.running -= 1
