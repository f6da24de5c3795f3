"""A long conversation: what a turn costs at its beginning and at its end, and how much of the disk is text."""

from __future__ import annotations

from bench.arena import Arena
from bench.contest import Contestant, Lap, fastest, make_figure, open_contestants, play
from bench.material import TURN_BYTES
from bench.ours import CommitTurn, ServeTurn
from bench.raw import RAW
from bench.report import Contest, Findings, make_goal

BYTES_AT_MOST = 2.5
LATE_AT_MOST = 1.3
TURN_AT_MOST = 3.0


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        await _measure_conversations(arena, store, findings)


async def _measure_conversations(arena: Arena, store: str, findings: Findings) -> None:
    raw_ways = RAW[store].turns
    contestants = await arena.enter(store, *raw_ways, CommitTurn, ServeTurn)
    async with open_contestants(contestants):
        weights = [await measure_bytes(contestant, arena.scale.turns) for contestant in contestants]
        results = await play(contestants, rounds=arena.scale.rounds, operations=arena.scale.turns)
    raw = fastest(results[: len(raw_ways)])
    *_, ours, _served = results

    early = Contest("session", "near turn 10", store)
    findings.rows += [early.row(result, "one turn", near_10, raw) for result in results]
    late = Contest("session", f"near turn {arena.scale.turns}", store)
    findings.rows += [late.row(result, "one turn", near_end, raw) for result in results]
    disk = Contest("session", f"{arena.scale.turns} turns on disk", store)
    findings.rows += [
        disk.weight(contestant.name, weight) for contestant, weight in zip(contestants, weights, strict=True)
    ]

    flat = make_figure([near_end(lap) / near_10(lap) for lap in ours.laps])
    findings.goals += [
        make_goal(f"session bytes {store}", weights[-2], "at most", BYTES_AT_MOST, "× the text"),
        make_goal(f"session flat {store}", flat, "at most", LATE_AT_MOST, "× a turn near turn 10"),
        make_goal(f"session turn {store}", ours.against(raw, near_end), "at most", TURN_AT_MOST, "× raw"),
    ]


async def measure_bytes(contestant: Contestant, turns: int) -> float:
    """How many bytes the first conversation leaves on disk for each byte of its text."""
    empty = await contestant.place.size()
    await contestant.begin()
    for number in range(turns):
        await contestant.operation(number)
    return (await contestant.place.size() - empty) / (turns * TURN_BYTES)


def near_10(lap: Lap) -> float:
    return lap.middle_s(5, 25)


def near_end(lap: Lap) -> float:
    """The last twenty: of a conversation of 200 turns, unless it was cut short."""
    return lap.middle_s(-20)
