"""Many small jobs through the queue, one worker: how much of the database's own group commit is left.

The limit is raw group commit as tasks can use it, each fact durable before its job goes on: see `raw.queue`. Holdfast
runs under its output rule, and the same in strict for comparison; so does what no engine can have, commits gathered by
hand.

Beside peers, workers are processes of their own, one and two of them, ours too.
"""

from __future__ import annotations

import functools
from typing import Any

from bench.arena import Arena
from bench.contest import Result, middle, open_contestants, play
from bench.crew import OneWorker, TwoWorkers
from bench.material import GROUP, RESULT, STEPS_PER_JOB
from bench.peers.catalogue import LEFT_OUT, make_entrants
from bench.raw.queue import BY_HAND, TASKS
from bench.report import Contest, Findings, make_goal, make_peer_goal
from bench.surface import Queue, StrictQueue

AT_LEAST = {"sqlite": 0.4, "postgres": 1 / 3}
PEERS_AT_LEAST = 8.0
SECOND_AT_LEAST = 1.0


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        await _measure_in_process(arena, store, findings)
        await _measure_processes(arena, store, findings)


async def _measure_in_process(arena: Arena, store: str, findings: Findings) -> None:
    jobs = arena.scale.jobs
    entries = (TASKS[store], BY_HAND[store], Queue, StrictQueue)
    contestants = await arena.enter(store, *(functools.partial(entry, jobs=jobs) for entry in entries))
    async with open_contestants(contestants):
        results = await play(contestants, rounds=arena.scale.rounds, operations=1)
    raw, _, ours, _ = results = [result.per_row() for result in results]
    contest = Contest("queue", f"{jobs} jobs of 5 steps", store)
    findings.rows += contest.table(results, "one job", middle, raw)
    share = raw.against(ours, middle)  # their time over ours: our share of their speed
    findings.goals.append(
        make_goal(f"queue {store}", share, "at least", round(AT_LEAST[store], 3), "of raw group commit")
    )


async def _measure_processes(arena: Arena, store: str, findings: Findings) -> None:
    """One and two worker processes. On SQLite there is no second machine to be on, so one."""
    jobs = arena.scale.jobs
    crews = (OneWorker, TwoWorkers) if store == "postgres" else (OneWorker,)
    ours = [functools.partial(entry, jobs=jobs) for entry in (TASKS[store], *crews)]
    told: dict[str, Any] = {
        "jobs": jobs,
        "rows": jobs,
        "steps": STEPS_PER_JOB,
        "concurrency": GROUP,
        "result": RESULT,
    }
    peers = [
        entry
        for nth, _ in enumerate(crews)
        for entry in make_entrants("queue", store, arena.peers, workers=nth + 1, **told)
    ]
    contestants = await arena.enter(store, *ours, *peers)
    absent: list[str] = []
    async with open_contestants(contestants, absent):
        results = await play(contestants, rounds=arena.scale.rounds, operations=1)
    raw, one, *rest = results = [result.per_row() for result in results]
    others: list[Result] = rest[len(crews) - 1 :]
    contest = Contest("queue", f"{jobs} jobs of 5 steps, worker processes", store)
    findings.rows += contest.table(results, "one job", middle, raw, others)
    if store == "postgres":
        findings.goals.append(
            make_goal(
                "queue second worker",
                one.against(rest[0], middle),
                "at least",
                SECOND_AT_LEAST,
                "× as fast as one",
            )
        )
    if peers:
        findings.beside("queue", store, LEFT_OUT["queue"], absent)
    if others:
        findings.goals.append(make_peer_goal(f"queue peers {store}", one, others, PEERS_AT_LEAST))
