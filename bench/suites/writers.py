"""Many writers at one SQLite file: every write is accepted, and nobody waits long for its turn."""

from __future__ import annotations

from typing import Any

from bench.arena import Arena
from bench.contest import make_figure, middle, open_contestants, play
from bench.material import RESULT
from bench.peers import Lines
from bench.peers.catalogue import LEFT_OUT, make_entrants
from bench.report import Contest, Findings, Row, make_goal
from bench.writers import OURS, writers

LONGEST_AT_MOST_S = 0.5
ROUNDS_AT_MOST = 3


async def run(arena: Arena, findings: Findings) -> None:
    if "sqlite" in arena.stores:
        for processes, each in arena.scale.storms:
            await _measure_storm(arena, processes, each, findings)


async def _measure_storm(arena: Arena, processes: int, each: int, findings: Findings) -> None:
    writes = processes * each
    told: dict[str, Any] = {
        "writers": processes,
        "each": each,
        "jobs": writes + processes,  # each has written once before the clock runs
        "rows": writes,
        "result": RESULT,
    }
    peers = make_entrants("writers", "sqlite", arena.peers, **told)
    contestants = await arena.enter("sqlite", *(writers(work, told) for work in OURS), *peers)
    absent: list[str] = []
    async with open_contestants(contestants, absent):
        results = await play(contestants, rounds=min(ROUNDS_AT_MOST, arena.scale.rounds), operations=1)
    title = f"{processes} × {each}"
    raw, _, _, *others = results
    findings.rows += Contest("writers", title, "sqlite").table(results, "all writes", middle, raw, others)
    waits = Contest("writers", f"{title}, longest wait of one writer", "sqlite")
    for one in contestants:
        assert isinstance(one, Lines)
        findings.rows.append(_make_longest_row(waits, one))
        if one.work == "holdfast":
            accepted = min(answer["accepted"] / writes for answer in one.answers)
            worst_s = max(answer["longest_s"] for answer in one.answers)
            findings.goals += [
                make_goal(f"writers {title} accepted", accepted, "at least", 1.0, "of all writes"),
                make_goal(
                    f"writers {title} wait",
                    worst_s,
                    "at most",
                    LONGEST_AT_MOST_S,
                    "s, the longest of all laps",
                ),
            ]
    if peers:
        findings.beside("writers", "sqlite", LEFT_OUT["writers"], absent)


def _make_longest_row(contest: Contest, one: Lines) -> Row:
    found = make_figure([answer["longest_s"] * 1000 for answer in one.answers])
    return Row(
        suite=contest.suite,
        contest=contest.name,
        store=contest.store,
        contestant=one.name,
        measure="one write",
        unit="ms",
        value=found.value,
        low=found.low,
        high=found.high,
    )
