"""Runner: one program, undisturbed, with every single fault and with some of the rarer ones, judged after each play."""

from __future__ import annotations

import gc
import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from tests.programs import oracle, variants
from tests.programs.generator import generate
from tests.programs.oracle import Ambiguous, Outcome
from tests.programs.stage import MEMORY, Application, Fault, Kind, LoopKind, Played, Point, play
from tests.programs.stores import Backend
from tests.programs.verdict import Failure, judge

CALLS_MIN: Final = 2
CALLS_MAX: Final = 9
"""A program with fewer or more durable calls is drawn again."""

SAMPLED: Final[dict[str, int]] = {
    "pair": 3,
    "freeze": 2,
    "drain": 2,
    "renamed": 2,
    "reordered": 2,
    "strict": 2,
    "hidden": 2,
    **({"eager": 2} if sys.version_info >= (3, 12) else {}),
}
"""Rarer faults, and how many plays of each a program gets, at points that its number decides."""

Variant = Literal["", "renamed", "reordered"]


@dataclass(frozen=True)
class Scenario:
    """One way to play a program.

    `faults`: what happens to the first worker, the second, and so on. `variant`: what the second worker runs instead of
    the same source. `strict`: every step waits for the disk. `loop`: `hidden` hides its ready queue, as uvloop does;
    `eager` starts tasks at once.
    """

    faults: tuple[Fault, ...] = ()
    variant: Variant = ""
    strict: bool = False
    loop: LoopKind = ""

    @property
    def form(self) -> tuple[object, ...]:
        """What stays the same while a program shrinks."""
        return tuple(fault.kind for fault in self.faults), self.variant, self.strict, self.loop

    def __str__(self) -> str:
        flags = [self.variant, self.strict and "strict", self.loop]
        return " ".join([*map(str, self.faults), *(f"--{flag}" for flag in flags if flag)])


@dataclass
class Program:
    """A program and what must come of it."""

    source: str
    outcome: Outcome
    number: int | None = None

    @classmethod
    def load(cls, source: str, number: int | None = None) -> Program:
        """The program of this source; Ambiguous, if luck decides its outcome."""
        return cls(source, oracle.decide(source), number)


@dataclass
class Found:
    """A play that went wrong."""

    scenario: Scenario
    failure: Failure

    def __str__(self) -> str:
        return f"{str(self.scenario) or 'undisturbed'}\n    {self.failure}"


@dataclass
class Report:
    """All plays of one program."""

    program: Program
    plays: int = 0
    found: list[Found] = field(default_factory=list)


def find_program(number: int) -> Program:
    """The program with this number."""
    for attempt in range(100):
        source = generate(number, attempt)
        try:
            if CALLS_MIN <= oracle.run(source).calls <= CALLS_MAX:
                return Program.load(source, number)
        except Ambiguous as error:
            msg = f"program {number}: {error}\n{source}"
            raise Ambiguous(msg) from None
    msg = f"no program for number {number}"
    raise AssertionError(msg)


class Runner:
    """Plays one program in as many ways as it is asked to."""

    def __init__(self, program: Program, backend: Backend = MEMORY) -> None:
        self.program = program
        self.backend = backend
        self.report = Report(program)
        self.chance = random.Random(f"{program.number}/faults")
        self._after_kill: dict[Fault, Sequence[Point]] = {}
        """The points that the second worker passes after the first was killed there."""
        self._applications: dict[Variant, Application | None] = {"": Application(program.source)}

    def play(self, scenario: Scenario) -> Played | None:
        """Play it and judge; None, if the program has no such variant."""
        first, second = self._application(""), self._application(scenario.variant)
        if first is None or second is None:
            return None
        played = play(
            [first, second],
            scenario.faults,
            strict=scenario.strict,
            loop_kind=scenario.loop,
            backend=self.backend,
        )
        self.report.plays += 1
        if scenario == Scenario(scenario.faults[:1]) and len(played.passed) > 1 and played.passed[1]:
            self._after_kill[scenario.faults[0]] = played.passed[1]
        failures = judge(self.program.outcome, played)
        self.report.found += [Found(scenario, failure) for failure in failures]
        return played

    def _application(self, variant: Variant) -> Application | None:
        if variant not in self._applications:
            source = self.program.source
            chance = random.Random(f"{self.program.number}/rename")
            other = variants.rename(source, chance) if variant == "renamed" else variants.reorder(source)
            self._applications[variant] = None if other is None else Application(other)
        return self._applications[variant]

    def scenarios(self, calm: Played, sampled: dict[str, int]) -> Iterator[Scenario]:
        """Every single fault, and some of the rarer ones. Of several points between which nothing happens that could
        make a difference, only the first counts."""
        points = calm.passed[0]
        killed, torn = set(), set()
        for point in points:
            if point.state not in killed:
                killed.add(point.state)
                yield Scenario((Fault("kill", point),))
            if ":" in point.name or (point.state, point.turn) not in torn:
                torn.add((point.state, point.turn))
                yield Scenario((Fault("teardown", point),))
        for name, count in sampled.items():
            for _ in range(count if points else 0):
                scenario = self._sample(name, points)
                if scenario is not None:
                    yield scenario

    def _sample(self, name: str, points: Sequence[Point]) -> Scenario | None:
        if name == "pair":
            return self.pair()
        kill = Fault("kill", self.chance.choice(points))
        if name == "freeze":
            # Between its last look at the clock and its first byte a worker that stands still cannot be helped.
            fit = [point for point in points if point.name != "after_intent_before_call"]
            return Scenario((Fault("freeze", self.chance.choice(fit)),)) if fit else None
        if name == "drain":
            return Scenario((Fault("drain", self.chance.choice(points)),))
        if name == "renamed":
            return Scenario((kill,), variant="renamed")
        if name == "reordered":
            return Scenario((kill,), variant="reordered")
        if name == "strict":
            return Scenario((kill,), strict=True)
        return Scenario((kill,), loop="eager" if name == "eager" else "hidden")

    def pair(self) -> Scenario | None:
        """The second worker is killed as well, at one of the points that it passes."""
        killed = [fault for fault in self._after_kill if fault.kind == "kill"]
        if not killed:
            return None
        first = self.chance.choice(killed)
        second: Kind = "kill" if self.chance.random() < 0.7 else "teardown"
        return Scenario((first, Fault(second, self.chance.choice(self._after_kill[first]))))


def run_program(program: Program, sampled: dict[str, int] | None = None) -> Report:
    """Play the program undisturbed and with its faults."""
    runner = Runner(program)
    with no_garbage():
        calm = runner.play(Scenario())
        if calm is not None and calm.stopped is None:
            for scenario in runner.scenarios(calm, SAMPLED if sampled is None else sampled):
                runner.play(scenario)
    return runner.report


def find_failure(program: Program) -> Found | None:
    """The first play of the program that goes wrong; None, if none does."""
    runner = Runner(program)
    with no_garbage():
        calm = runner.play(Scenario())
        if calm is not None and calm.stopped is None and not runner.report.found:
            for scenario in runner.scenarios(calm, SAMPLED):
                runner.play(scenario)
                if runner.report.found:
                    break
    return next(iter(runner.report.found), None)


def sample_program(
    program: Program, backend: Backend, plays: int, sampled: dict[str, int] | None = None
) -> Report:
    """Play the program undisturbed, and with some of the faults that it meets."""
    runner = Runner(program, backend)
    with no_garbage():
        calm = runner.play(Scenario())
        if calm is not None and calm.stopped is None:
            scenarios = list(runner.scenarios(calm, {} if sampled is None else sampled))
            for scenario in runner.chance.sample(scenarios, min(plays, len(scenarios))):
                runner.play(scenario)
            for _ in range((sampled or {}).get("pair", 0)):  # they come of what was played
                pair = runner.pair()
                if pair is not None:
                    runner.play(pair)
    return runner.report


def find_like(program: Program, found: Found) -> Found | None:
    """The first play of this program that fails as that one does, with the same kinds of faults."""
    runner = Runner(program)
    with no_garbage():
        calm = runner.play(Scenario())
        if not found.scenario.form[0] and found.scenario == Scenario():
            return next((one for one in runner.report.found if one.failure.kind == found.failure.kind), None)
        if calm is None or runner.report.found:
            return None
        for scenario in _alike(runner, calm, found.scenario):
            runner.report.found.clear()
            runner.play(scenario)
            for one in runner.report.found:
                if one.failure.kind == found.failure.kind:
                    return one
    return None


def _alike(runner: Runner, calm: Played, scenario: Scenario) -> Iterator[Scenario]:
    """The same faults, at every point."""
    first, *rest = scenario.faults or (None,)
    if first is None:
        yield scenario
        return
    for point in calm.passed[0]:
        single = replace(scenario, faults=(Fault(first.kind, point),))
        if not rest:
            yield single
            continue
        played = runner.play(single)
        for other in played.passed[1] if played is not None and len(played.passed) > 1 else ():
            yield replace(scenario, faults=(*single.faults, Fault(rest[0].kind, other)))


@contextmanager
def no_garbage() -> Iterator[None]:
    """What dead processes leave behind is collected at the end, and what it says then is not heard."""
    enabled, hook = gc.isenabled(), sys.unraisablehook
    sys.unraisablehook = lambda _unraisable: None
    gc.disable()
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # coroutines that were never awaited
            gc.collect()
        sys.unraisablehook = hook
        if enabled:
            gc.enable()
