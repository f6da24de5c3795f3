"""The built-in assistant through a long conversation: message to answer, near the beginning and near the end, and what
it leaves on disk: messages, journals, receipts and all."""

from __future__ import annotations

from bench.arena import Arena
from bench.contest import figure, opened, play
from bench.material import TURNS
from bench.report import Contest, Findings, goal
from bench.suites.session import BYTES_AT_MOST, LATE_AT_MOST, near_10, near_200, weighed
from bench.surface import Chat


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        contestants = await arena.enter(store, Chat)
        async with opened(contestants):
            weight = await weighed(contestants[0])
            (result,) = await play(contestants, rounds=max(2, arena.scale.rounds // 2), operations=TURNS)
        findings.rows += [
            Contest("chat", "near turn 10", store).row(result, "one turn", near_10, result),
            Contest("chat", "near turn 200", store).row(result, "one turn", near_200, result),
            Contest("chat", f"{TURNS} turns on disk", store).weight(contestants[0].name, weight),
        ]
        flat = figure([near_200(lap) / near_10(lap) for lap in result.laps])
        findings.goals += [
            goal(f"chat bytes {store}", weight, "at most", BYTES_AT_MOST, "× the text"),
            goal(f"chat flat {store}", flat, "at most", LATE_AT_MOST, "× a turn near turn 10"),
        ]
