"""A job of one step finds an idle worker: how long until it is done, and what an idle worker asks of its database."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.arena import Arena
from bench.contest import middle, opened, play
from bench.pickup import Pickup
from bench.raw.pickup import PICKUP
from bench.report import Contest, Findings, goal
from bench.surface import Idle

AT_MOST = 1.5
PER_IDLE_SECOND = 1.0
IDLE_S = 20.0


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        contestants = await arena.enter(store, PICKUP[store], Pickup)
        async with opened(contestants):
            results = await play(contestants, rounds=arena.scale.rounds, operations=arena.scale.singles)
        (idle,) = await arena.enter(store, Idle)
        async with opened([idle]):
            asked = await _idle(idle)
        raw, ours = results
        contest = Contest("pickup", "enqueue to done, idle worker", store)
        findings.rows += [contest.row(result, "one job", middle, raw) for result in results]
        findings.goals += [
            goal(f"pickup {store}", ours.against(raw, middle), "at most", AT_MOST, "× raw"),
            goal(f"idle {store}", asked, "at most", PER_IDLE_SECOND, "transactions a second"),
        ]


async def _idle(contestant: Any) -> float:
    """How many transactions a second a worker makes that has nothing to do."""
    executor, count = contestant.process.store.inspection._executor, 0  # noqa: SLF001 - nobody else counts
    for name in ("read", "write"):
        plain = getattr(executor, name)

        async def counted(*told: Any, plain: Any = plain, **more: Any) -> Any:
            nonlocal count
            count += 1
            return await plain(*told, **more)

        setattr(executor, name, counted)
    await asyncio.sleep(IDLE_S)
    return count / IDLE_S
