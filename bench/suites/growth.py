"""What grows: the cost of an append against the length of its journal, of a claim against the depth of the queue, of a
turn against the length of the session, and of a resume against the steps there are to replay.

The first three must be flat and the last at most linear. A line is laid through the points with both scales
logarithmic; its slope is the exponent, 0 for flat and 1 for linear.
"""

from __future__ import annotations

import functools
from time import perf_counter

from bench.arena import Arena
from bench.contest import make_figure, open_contestants, play
from bench.material import AT, step
from bench.ours import AppendOne, CommitTurn, Holdfast
from bench.places import Place
from bench.report import Curve, Findings, Goal, make_goal
from bench.suites.resume import Resume
from holdfast.model.append import append_of
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobDraft
from holdfast.model.limits import EVENTS_PER_APPEND_MAX
from holdfast.model.time import HOUR
from holdfast.store.ports.leases import ClaimRequest

FLAT_AT_MOST = 0.15
LINEAR_AT_MOST = 1.1
SAMPLES = 40


class LongJournal(AppendOne):
    """An append to a job whose journal is already so long."""

    async def lengthen(self, events: int) -> None:
        while self.count < events:
            many = min(EVENTS_PER_APPEND_MAX, events - self.count)
            append = append_of(self.holders[0], [step(self.count + nth) for nth in range(many)], at=AT)
            self.count += many
            self.check_accepted(0, append, await self.store.journal.append(append))


class DeepQueue(Holdfast):
    """One job claimed from a queue that is already so deep."""

    name = "holdfast claim"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.ids = RandomIds()
        self.depth = 0

    async def deepen(self, jobs: int) -> None:
        while self.depth < jobs:
            many = min(1000, jobs - self.depth)
            await self.store.jobs.submit_many([JobDraft(kind="bench") for _ in range(many)])
            self.depth += many

    async def operation(self, number: int) -> None:
        ask = ClaimRequest(
            worker="bench", token=self.ids.new("claim"), queues=("default",), limit=1, ttl_us=HOUR
        )
        assert len(await self.store.leases.claim(ask)) == 1
        self.depth -= 1


async def _measure_ms(contestant: Holdfast, first: int = 0) -> float:
    """The median of some operations, in milliseconds."""
    times = []
    for number in range(SAMPLES):
        began = perf_counter()
        await contestant.operation(first + number)
        times.append((perf_counter() - began) * 1000)
    return make_figure(times).value


async def run(arena: Arena, findings: Findings) -> None:
    longest = max(arena.scale.histories)
    sizes = [size for size in (100, 1_000, 10_000) if size <= longest]
    for store in arena.stores:
        found = [
            await _measure_appends(arena, store, sizes),
            await _measure_claims(arena, store, sizes),
            await _measure_turns(arena, store, sizes),
        ]
        findings.goals += [_make_goal(one, FLAT_AT_MOST, "flat") for one in found]
        resumed = await _measure_resumes(arena, store, sizes)
        findings.goals.append(_make_goal(resumed, LINEAR_AT_MOST, "linear"))
        findings.curves += [*found, resumed]


def _make_goal(one: Curve, limit: float, shape: str) -> Goal:
    return make_goal(f"growth {one.name} {one.store}", one.exponent(), "at most", limit, f"exponent: {shape}")


def _make_curve(name: str, store: str, contestant: str, of: str, points: list[tuple[int, float]]) -> Curve:
    return Curve(name=name, store=store, contestant=contestant, of=of, unit="ms", points=tuple(points))


async def _measure_appends(arena: Arena, store: str, sizes: list[int]) -> Curve:
    (one,) = await arena.enter(store, LongJournal)
    assert isinstance(one, LongJournal)
    points = []
    async with open_contestants([one]):
        await _measure_ms(one)
        for size in sizes:
            await one.lengthen(size)
            points.append((size, await _measure_ms(one)))
    return _make_curve("append", store, one.name, "events in the journal", points)


async def _measure_claims(arena: Arena, store: str, sizes: list[int]) -> Curve:
    (one,) = await arena.enter(store, DeepQueue)
    assert isinstance(one, DeepQueue)
    points = []
    async with open_contestants([one]):
        await one.deepen(SAMPLES)
        await _measure_ms(one)
        for size in sizes:
            await one.deepen(size)
            points.append((size, await _measure_ms(one)))
    return _make_curve("claim", store, one.name, "jobs in the queue", points)


async def _measure_turns(arena: Arena, store: str, sizes: list[int]) -> Curve:
    (one,) = await arena.enter(store, CommitTurn)
    points, turn = [], 0
    async with open_contestants([one]):
        await one.begin()
        for size in (sizes[0] // 4, *sizes[:2]):
            while turn < size:
                await one.operation(turn)
                turn += 1
            assert isinstance(one, CommitTurn)
            points.append((size, await _measure_ms(one, turn)))
            turn += SAMPLES
    return _make_curve("turn", store, one.name, "turns in the session", points)


async def _measure_resumes(arena: Arena, store: str, sizes: list[int]) -> Curve:
    points = []
    for size in sizes:
        (one,) = await arena.enter(store, functools.partial(Resume, steps=size))
        async with open_contestants([one]):
            (result,) = await play([one], rounds=min(3, arena.scale.rounds), operations=1)
        points.append((size, result.each(lambda lap: lap.middle_s()).value * 1000))
    return _make_curve("resume", store, Resume.name, "recorded steps", points)
