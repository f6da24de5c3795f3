"""A job of one step finds an idle worker: how long until it is done, and what an idle worker asks of its database."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.arena import Arena
from bench.contest import middle, open_contestants, play
from bench.material import GROUP, RESULT
from bench.peers.catalogue import LEFT_OUT, make_entrants
from bench.pickup import Pickup
from bench.raw.pickup import PICKUP
from bench.report import Contest, Findings, make_goal
from bench.surface import Idle

AT_MOST = 1.5
PER_IDLE_SECOND = 1.0
PEERS_OPERATIONS = 10
"""As shipped some take most of a second for each."""


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        told = {"steps": 1, "workers": 1, "concurrency": GROUP, "result": RESULT}
        peers = make_entrants("pickup", store, arena.peers, operations=PEERS_OPERATIONS, **told)
        contestants = await arena.enter(store, PICKUP[store], Pickup, *peers)
        absent: list[str] = []
        async with open_contestants(contestants, absent):
            results = await play(contestants, rounds=arena.scale.rounds, operations=arena.scale.singles)
        (idle,) = await arena.enter(store, Idle)
        async with open_contestants([idle]):
            asked = await _measure_idle(idle, arena.scale.idle_s)
        raw, ours, *others = results
        contest = Contest("pickup", "enqueue to done, idle worker", store)
        findings.rows += contest.table(results, "one job", middle, raw, others)
        findings.goals += [
            make_goal(f"pickup {store}", ours.against(raw, middle), "at most", AT_MOST, "× raw"),
            make_goal(f"idle {store}", asked, "at most", PER_IDLE_SECOND, "transactions a second"),
        ]
        if peers:
            findings.beside("pickup", store, LEFT_OUT["pickup"], absent)


async def _measure_idle(contestant: Any, seconds: float) -> float:
    """How many transactions a second a worker makes that has nothing to do."""
    executor, count = contestant.process.store.inspection._executor, 0  # noqa: SLF001 - nobody else counts
    for name in ("read", "write"):
        plain = getattr(executor, name)

        async def counted(*told: Any, plain: Any = plain, **more: Any) -> Any:
            nonlocal count
            count += 1
            return await plain(*told, **more)

        setattr(executor, name, counted)
    await asyncio.sleep(seconds)
    return count / seconds
