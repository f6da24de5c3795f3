"""The suites by name; each adds rows and goals to the findings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from bench.arena import Arena
from bench.report import Findings
from bench.suites import (
    api,
    append,
    chat,
    footprint,
    growth,
    listing,
    pickup,
    queue,
    resume,
    seed,
    session,
    slow,
    step,
    sweep,
    work,
    writers,
)

Suite = Callable[[Arena, Findings], Awaitable[None]]

SUITES: Final[Mapping[str, Suite]] = {
    "append": append.run,
    "step": step.run,
    "queue": queue.run,
    "pickup": pickup.run,
    "api": api.run,
    "work": work.run,
    "resume": resume.run,
    "session": session.run,
    "chat": chat.run,
    "seed": seed.run,
    "sweep": sweep.run,
    "writers": writers.run,
    "growth": growth.run,
    "listing": listing.run,
    "footprint": footprint.run,
    "slow": slow.run,
}
