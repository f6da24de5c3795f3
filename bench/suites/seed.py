"""Seed 002, side by side with its figures: the kit's calls on one SQLite file at full durability.

The seed sets a limit for each, as average and 95th percentile; the worse of the two comparisons is the goal's value.
What it calls typical ("~5-8 ms"), on a machine that nobody knows, is shown beside ours at its better end.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Final

import msgspec

from bench.arena import Arena
from bench.contest import Figure, make_figure
from bench.report import Findings, Row, make_goal
from holdfast.kit import (
    CheckpointManager,
    Database,
    Evidence,
    EvidencePack,
    EvidenceType,
    LLMOutputCache,
    ToolLedger,
    get_db,
)

TIMES_BETTER: Final = 5.0
TASK: Final = "bench"
STORED: Final = 100


class PublishedTimes(msgspec.Struct, frozen=True):
    """What the seed allows and what it calls typical, in milliseconds, and how often it measures."""

    average: float
    p95: float
    typical: float
    typical_p95: float
    times: int


SEED: Final = {
    "create": PublishedTimes(10, 20, 5, 12, 100),
    "verify": PublishedTimes(15, 30, 8, 18, 50),
    "cache": PublishedTimes(5, 10, 1, 5, 1000),
    "replay": PublishedTimes(5, 10, 1, 5, 1000),
    "whole": PublishedTimes(30, 50, 15, 30, 50),
}


class RoundTimes(msgspec.Struct, frozen=True):
    """One round, in milliseconds."""

    average: float
    p95: float


async def run(arena: Arena, findings: Findings) -> None:
    if "sqlite" in arena.stores:
        # The kit is for people without an event loop, so it is measured where none runs.
        await asyncio.to_thread(_run, arena, findings)


def _run(arena: Arena, findings: Findings) -> None:
    with get_db(arena.folder / "seed.db") as db:
        for name, call in _make_calls(db, arena.folder).items():
            call()
            rounds = [_run_round(call, SEED[name].times) for _ in range(arena.scale.rounds)]
            _report(name, rounds, findings)


def _make_calls(db: Database, folder: Path) -> dict[str, Callable[[], object]]:
    """What each of the seed's five measurements does, once."""
    (folder / "page.txt").write_text("page", encoding="utf-8")
    page = Evidence(EvidenceType.ARTIFACT_EXISTS, "the page", {"path": "page.txt", "type": "file"})
    ended = Evidence(EvidenceType.COMMAND_EXIT, "make", {"exit_code": 0}, {"exit_code": 0})
    pack = EvidencePack([page, ended])
    manager, cache, ledger = CheckpointManager(conn=db, base_path=folder), LLMOutputCache(db), ToolLedger(db)
    for number in range(STORED):
        cache.get_or_generate("plan", f"prompt {number}", "model", dict)
        ledger.execute_or_replay("bash", f"echo {number}", dict, TASK)
    numbers = itertools.cycle(range(STORED))

    def create() -> str:
        step = manager.begin_step(TASK, "iteration_end", {"number": next(numbers)})
        return manager.commit_step(step, pack).checkpoint_id

    made = create()

    def whole() -> None:
        point = create()
        assert manager.verify_checkpoint(point)
        last = manager.get_last_verified_checkpoint(TASK)
        assert last is not None
        assert last.checkpoint_id == point

    return {
        "create": create,
        "verify": lambda: manager.verify_checkpoint(made),
        "cache": lambda: cache.get_or_generate("plan", f"prompt {next(numbers)}", "model", dict),
        "replay": lambda: ledger.execute_or_replay("bash", f"echo {next(numbers)}", dict, TASK),
        "whole": whole,
    }


def _run_round(call: Callable[[], object], times: int) -> RoundTimes:
    took = []
    for _ in range(times):
        began = perf_counter()
        call()
        took.append((perf_counter() - began) * 1000)
    took.sort()
    return RoundTimes(fmean(took), took[int(times * 0.95)])


def _report(name: str, rounds: list[RoundTimes], findings: Findings) -> None:
    seed = SEED[name]
    averages, p95s = make_figure([one.average for one in rounds]), make_figure([one.p95 for one in rounds])
    for measure, limit, typical, found in (
        ("average", seed.average, seed.typical, averages),
        ("p95", seed.p95, seed.typical_p95, p95s),
    ):
        findings.rows += [
            _make_row(name, measure, "seed 002, its limit", Figure(limit, limit, limit)),
            _make_row(name, measure, "seed 002, typical there", Figure(typical, typical, typical)),
            _make_row(name, measure, "holdfast kit", found),
        ]
    better = min(seed.average / averages.value, seed.p95 / p95s.value)
    findings.goals.append(
        make_goal(f"seed {name}", better, "at least", TIMES_BETTER, "× better than the seed's limit")
    )


def _make_row(name: str, measure: str, who: str, found: Figure) -> Row:
    return Row(
        suite="seed",
        contest=f"{name} {measure}",
        store="sqlite",
        contestant=who,
        measure=f"{measure} of one call",
        unit="ms",
        value=found.value,
        low=found.low,
        high=found.high,
    )
