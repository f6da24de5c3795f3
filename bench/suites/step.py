"""One job, steps in series: each on disk before the next, and under the output rule.

A whole job is one operation: submitted, claimed, driven, completed, its result read. The figures are of one step of it,
so what a job costs beside its steps is in them.
"""

from __future__ import annotations

from bench.arena import Arena
from bench.contest import middle, open_contestants, play
from bench.material import GROUP, RESULT, STEPS
from bench.peers.catalogue import LEFT_OUT, make_entrants
from bench.raw import RAW
from bench.report import Contest, Findings, make_goal, make_peer_goal
from bench.surface import Reads, Strict

STRICT_AT_MOST = 2.0
READS_AT_MOST = 0.1
PEERS_AT_LEAST = 2.5


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        peers = make_entrants(
            "serial", store, arena.peers, steps=STEPS, rows=STEPS, concurrency=GROUP, result=RESULT
        )
        contestants = await arena.enter(store, RAW[store].steps, Strict, Reads, *peers)
        absent: list[str] = []
        async with open_contestants(contestants, absent):
            results = await play(
                contestants, rounds=arena.scale.rounds, operations=max(2, arena.scale.singles // 20)
            )
        raw, strict, reads, *others = results = [result.per_row() for result in results]
        contest = Contest("step", "in series", store)
        findings.rows += contest.table(results, "one step", middle, raw, others)
        to_raw, to_strict = strict.against(raw, middle), reads.against(strict, middle)
        findings.goals += [
            make_goal(f"step strict {store}", to_raw, "at most", STRICT_AT_MOST, "× one raw commit"),
            make_goal(f"step reads {store}", to_strict, "at most", READS_AT_MOST, "of a strict step"),
        ]
        if peers:
            findings.beside("step", store, LEFT_OUT["serial"], absent)
        if others:
            findings.goals.append(make_peer_goal(f"step peers {store}", strict, others, PEERS_AT_LEAST))
