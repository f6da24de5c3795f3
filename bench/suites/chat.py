"""The built-in assistant through a long conversation: message to answer, near the beginning and near the end, and what
it leaves on disk: messages, journals, receipts and all; and with the journals of old turns pruned, as retention does.
On SQLite beside LangGraph over its own checkpointer."""

from __future__ import annotations

from bench.arena import Arena
from bench.contest import Contestant, figure, opened, play
from bench.material import TURNS
from bench.peers import LangGraphChat
from bench.report import Contest, Findings, goal
from bench.suites.session import BYTES_AT_MOST, LATE_AT_MOST, near_10, near_200, weighed
from bench.surface import Chat, PrunedChat

QUICK = 2
"""So few rounds are a test of the benchmark, not a measurement: nobody is installed for it."""


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        beside = store == "sqlite" and arena.scale.rounds > QUICK
        entered: list[type[Contestant]] = [PrunedChat, *([LangGraphChat] if beside else []), Chat]
        contestants = await arena.enter(store, *entered)
        async with opened(contestants):
            weights = [await weighed(one) for one in contestants]
            results = await play(contestants, rounds=max(2, arena.scale.rounds // 3), operations=TURNS)
        ours = results[-1]
        for when, measure in (("near turn 10", near_10), ("near turn 200", near_200)):
            contest = Contest("chat", when, store)
            findings.rows += [contest.row(result, "one turn", measure, ours) for result in results]
        disk = Contest("chat", f"{TURNS} turns on disk", store)
        findings.rows += [
            disk.weight(one.name, weight) for one, weight in zip(contestants, weights, strict=True)
        ]
        flat = figure([near_200(lap) / near_10(lap) for lap in ours.laps])
        findings.goals += [
            goal(f"chat bytes {store}", weights[0], "at most", BYTES_AT_MOST, "× the text, pruned"),
            goal(f"chat flat {store}", flat, "at most", LATE_AT_MOST, "× a turn near turn 10"),
        ]
