"""Contestants take turns; what counts is how they compare.

Turns are as short as they can be: one operation of the first contestant, one of the second, and so on, then the same
backwards, so that nobody always runs after the same neighbour. So many operations of everybody are a *round*, and what
a contestant did in it is a *lap*. Comparisons are made inside a round, between medians, and the comparison of the run
is the median of those: whoever else loads the machine, for a millisecond or for a minute, loads it for everybody.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
from collections.abc import AsyncIterator, Callable, Sequence
from statistics import median
from time import perf_counter, process_time
from typing import ClassVar

import msgspec

from bench.places import Place


class Contestant:
    """One way to do the work. Subclasses say how; everything but `operation` is outside the clock."""

    name: ClassVar[str]
    rows_per_operation: int = 1
    rounds_at_most: int | None = None
    operations_at_most: int | None = None
    """Whoever is slow sits out later rounds, and later operations of a lap; what is compared are shared rounds."""
    inside: bool = True
    """Whether the work is done in this process, so that its processor time is known."""

    def __init__(self, place: Place) -> None:
        self.place = place

    async def open(self) -> None:
        """A fresh database is ready."""

    async def begin(self) -> None:
        """A lap is about to start."""

    async def operation(self, number: int) -> float | None:
        """The work, durable. `number` counts from 0 in every lap. Who measured by itself says how many seconds."""
        raise NotImplementedError

    async def end(self) -> None:
        """The lap is over: whatever it left running has ended."""

    async def close(self) -> None:
        """Nothing is held open."""

    async def abandon(self) -> None:
        """The same after somebody failed: nothing is asked of it any more."""
        await self.close()


class Lap(msgspec.Struct, frozen=True):
    """How long each operation took, and how much processor time all of them took, if they did it in this process."""

    times_s: tuple[float, ...]
    cpu_s: float
    inside: bool = True

    def middle_s(self, first: int = 0, last: int | None = None) -> float:
        """The median operation, or that of a window."""
        return median(self.times_s[first:last])


class Figure(msgspec.Struct, frozen=True):
    """The median of all rounds, and the lowest and highest."""

    value: float
    low: float
    high: float


def make_figure(values: Sequence[float]) -> Figure:
    return Figure(median(values), min(values), max(values))


class Result(msgspec.Struct, frozen=True):
    """All laps of one contestant."""

    contestant: str
    rows_per_operation: int
    laps: tuple[Lap, ...]

    def each(self, measure: Callable[[Lap], float]) -> Figure:
        return make_figure([measure(lap) for lap in self.laps])

    def per_row(self) -> Result:
        """The same counted by row: for contestants whose operations are of different sizes."""
        rows = self.rows_per_operation
        laps = [
            Lap(tuple(time / rows for time in lap.times_s), lap.cpu_s / rows, lap.inside) for lap in self.laps
        ]
        return Result(self.contestant, 1, tuple(laps))

    def against(self, other: Result, measure: Callable[[Lap], float]) -> Figure:
        """How many times the other's figure this one's is, compared round by round, as long as both took part."""
        pairs = zip(self.laps, other.laps, strict=False)
        return make_figure([measure(ours) / measure(theirs) for ours, theirs in pairs])


async def play(contestants: Sequence[Contestant], *, rounds: int, operations: int) -> list[Result]:
    """Every contestant has run one lap to warm up and then one in each round it takes part in. They must be open."""
    await _round(contestants, operations)
    laps: dict[Contestant, list[Lap]] = {contestant: [] for contestant in contestants}
    for number in range(rounds):
        present = [one for one in contestants if one.rounds_at_most is None or number < one.rounds_at_most]
        for contestant, lap in zip(present, await _round(present, operations), strict=True):
            laps[contestant].append(lap)
    return [Result(one.name, one.rows_per_operation, tuple(its)) for one, its in laps.items()]


async def _round(contestants: Sequence[Contestant], operations: int) -> list[Lap]:
    for contestant in contestants:
        await contestant.begin()
    gc.collect()
    stopwatches = [Stopwatch(contestant.inside) for contestant in contestants]
    order = list(zip(contestants, stopwatches, strict=True))
    for number in range(operations):
        for contestant, stopwatch in order:
            if contestant.operations_at_most is not None and number >= contestant.operations_at_most:
                continue
            await asyncio.sleep(0)  # whatever the neighbour left to the loop is not ours to do
            with stopwatch:
                said = await contestant.operation(number)
            if said is not None:
                stopwatch.correct(said)
        order.reverse()
    for contestant in contestants:
        await contestant.end()
    return [stopwatch.lap() for stopwatch in stopwatches]


class Stopwatch:
    """Adds up what happens between starts and stops."""

    def __init__(self, inside: bool = True) -> None:
        self._inside = inside
        self._times_s: list[float] = []
        self._cpu_s = 0.0
        self._began_s = 0.0

    def __enter__(self) -> None:
        self._cpu_s -= process_time()
        self._began_s = perf_counter()

    def __exit__(self, *_: object) -> None:
        self._times_s.append(perf_counter() - self._began_s)
        self._cpu_s += process_time()

    def correct(self, seconds: float) -> None:
        """The last operation took so long: it was measured where it happened."""
        self._times_s[-1] = seconds

    def lap(self) -> Lap:
        return Lap(tuple(self._times_s), self._cpu_s, self._inside)


class Absent(Exception):
    """A contestant of somebody else's could not take part. It is named in the report."""


@contextlib.asynccontextmanager
async def open_contestants(
    contestants: list[Contestant], absent: list[str] | None = None
) -> AsyncIterator[None]:
    """Every contestant is open inside the block. Who cannot take part is out of the list and named in `absent`."""
    async with contextlib.AsyncExitStack() as stack:
        for contestant in list(contestants):
            try:
                await contestant.open()
            except Absent as why:
                if absent is None:
                    raise
                absent.append(f"{contestant.name}: {why}")
                contestants.remove(contestant)
                continue
            stack.push_async_exit(functools.partial(_close_contestant, contestant))
        yield


async def _close_contestant(contestant: Contestant, failed: type[BaseException] | None, *_: object) -> None:
    await (contestant.close() if failed is None else contestant.abandon())


def middle(lap: Lap) -> float:
    """The median operation, in seconds."""
    return lap.middle_s()


def fastest(results: Sequence[Result], of: Callable[[Lap], float] = middle) -> Result:
    """Of several ways to do the same work, the best one in this run: of raw ones, that is the limit."""
    return min(results, key=lambda result: result.each(of).value)


def rate(lap: Lap) -> float:
    """Operations a second over the whole lap: what is rare and slow counts too, the machine's other work included."""
    return len(lap.times_s) / sum(lap.times_s)


def cpu(lap: Lap) -> float:
    """Processor seconds of this process for one operation; a server's and another process's are not in it."""
    return lap.cpu_s / len(lap.times_s)
