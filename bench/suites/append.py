"""The one kind of write: a fenced append against one raw commit, and many of them against a raw group commit."""

from __future__ import annotations

from bench.arena import Arena
from bench.contest import fastest, middle, open_contestants, play
from bench.material import GROUP
from bench.ours import AppendMany, AppendOne, AppendTasks
from bench.raw import RAW
from bench.report import Contest, Findings, make_goal

SINGLE_AT_MOST = 2.0
GROUP_AT_LEAST = 0.5


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        await _measure_single(arena, store, findings)
        await _measure_group(arena, store, findings)
        await _measure_tasks(arena, store, findings)


async def _measure_single(arena: Arena, store: str, findings: Findings) -> None:
    """The median commit: what a lone job waits for after each step."""
    contestants = await arena.enter(store, RAW[store].one, AppendOne)
    async with open_contestants(contestants):
        raw, ours = await play(contestants, rounds=arena.scale.rounds, operations=arena.scale.singles)
    contest = Contest("append", "single", store)
    findings.rows += [contest.row(result, "one append", middle, raw) for result in (raw, ours)]
    ratio = ours.against(raw, middle)
    findings.goals.append(
        make_goal(f"append single {store}", ratio, "at most", SINGLE_AT_MOST, "× one raw commit")
    )


async def _measure_group(arena: Arena, store: str, findings: Findings) -> None:
    """How much of the raw speed is left when many jobs share a commit."""
    raw_ways = RAW[store].groups
    contestants = await arena.enter(store, *raw_ways, RAW[store].inserts, AppendMany)
    async with open_contestants(contestants):
        results = await play(contestants, rounds=arena.scale.rounds, operations=arena.scale.groups)
    raw = fastest(results[: len(raw_ways)])
    contest = Contest("append", f"group of {GROUP}", store)
    findings.rows += [contest.row(result, "one group", middle, raw) for result in results]
    ratio = raw.against(results[-1], middle)  # their time over ours: our share of their speed
    findings.goals.append(
        make_goal(f"append group {store}", ratio, "at least", GROUP_AT_LEAST, "of raw group commit")
    )


async def _measure_tasks(arena: Arena, store: str, findings: Findings) -> None:
    """The same from as many tasks as jobs; by itself, because their wake-ups would disturb the neighbours."""
    raw_ways = RAW[store].groups
    contestants = await arena.enter(store, *raw_ways, AppendTasks)
    async with open_contestants(contestants):
        results = await play(contestants, rounds=arena.scale.rounds, operations=arena.scale.groups // 2)
    raw = fastest(results[: len(raw_ways)])
    contest = Contest("append", f"group of {GROUP} tasks", store)
    findings.rows += [contest.row(result, "one group", middle, raw) for result in results]
