"""Many small jobs through the queue, one worker: how much of the database's own group commit is left.

The limit is raw group commit as tasks can use it, each fact durable before its job goes on: see `raw.queue`. Holdfast
runs under its output rule, and the same in strict for comparison; so does what no engine can have, commits gathered by
hand.
"""

from __future__ import annotations

import functools

from bench.arena import Arena
from bench.contest import middle, opened, play
from bench.raw.queue import BY_HAND, TASKS
from bench.report import Contest, Findings, goal
from bench.surface import Queue, StrictQueue

AT_LEAST = {"sqlite": 0.4, "postgres": 1 / 3}


async def run(arena: Arena, findings: Findings) -> None:
    jobs = arena.scale.jobs
    for store in arena.stores:
        entries = (TASKS[store], BY_HAND[store], Queue, StrictQueue)
        contestants = await arena.enter(store, *(functools.partial(entry, jobs=jobs) for entry in entries))
        async with opened(contestants):
            results = await play(contestants, rounds=arena.scale.rounds, operations=1)
        raw, _, ours, _ = results = [result.per_row() for result in results]
        contest = Contest("queue", f"{jobs} jobs of 5 steps", store)
        findings.rows += [contest.row(result, "one job", middle, raw) for result in results]
        share = raw.against(ours, middle)  # their time over ours: our share of their speed
        findings.goals.append(
            goal(f"queue {store}", share, "at least", round(AT_LEAST[store], 3), "of raw group commit")
        )
