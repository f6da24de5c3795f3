"""Runner: one program, undisturbed, with every single fault and with some of the rarer ones, judged after each play."""

from __future__ import annotations

import gc
import random
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tests.kill.programs import oracle, variants
from tests.kill.programs.generator import generate
from tests.kill.programs.loops import LoopKind
from tests.kill.programs.oracle import Ambiguous, Outcome
from tests.kill.programs.patterns import TICKING
from tests.kill.programs.receivers import HOLDS, is_deadly
from tests.kill.programs.snapshot import Snapshot
from tests.kill.programs.stage import MEMORY, Application, Fault, Kind, Played, Point, play
from tests.kill.programs.stores import Backend
from tests.kill.programs.verdict import Failure, judge

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

LATER: Final = 6
"""Plays of a program whose calls end their process, each with a fault of a later worker or of a child process."""

CHECKED_ONE_OF: Final = 32
"""One of so many plays that need not be played whole is, and both ways must end alike."""

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

    @property
    def name(self) -> str:
        """What is counted: `kill`, `kill kill`, `renamed`."""
        flags = [self.variant, self.strict and "strict", self.loop]
        kinds = [f"later {fault.kind}" if fault.worker else fault.kind for fault in self.faults]
        return " ".join([flag for flag in flags if flag] or kinds) or "undisturbed"

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
    """All plays of one program. `joined`: so many of them ended early, because what their first worker left was what
    another play went on from. `checked`: so many were played both ways, to see that they end alike."""

    program: Program
    plays: int = 0
    joined: int = 0
    checked: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)


@dataclass(frozen=True)
class Ending:
    """What came of a play, to be compared with another that must end alike. The order of what happens in one instant
    is luck, and so are its ids and hashes."""

    output: Any
    error: str | None
    stopped: str | None
    events: Counter[str]
    """How many events of each type were recorded."""
    arrived: Counter[tuple[str, str]]
    """Tool and label of every request that arrived."""

    @classmethod
    def of(cls, played: Played) -> Ending:
        events = Counter(one.type for journal in played.journals.values() for one in journal)
        arrived = Counter((one.tool, one.label) for one in played.receivers.requests if one.arrived)
        return cls(played.output, played.error, played.stopped, events, arrived)

    def equals(self, other: Ending, *, by_luck: bool) -> bool:
        """Whether two plays of one scenario ended alike. `by_luck`: the second fault of a pair may fall on another
        claim, and of two messages of one instant either may come first, so the workers may record other events and
        send a call again; what the job returns is the same."""
        alike = (self.output, self.error, self.stopped) == (other.output, other.error, other.stopped)
        return alike and (by_luck or (self.events, self.arrived) == (other.events, other.arrived))


def find_program(number: int) -> Program:
    """The program with this number."""
    for attempt in range(100):
        source = generate(number, attempt)
        if "await asyncio.sleep(0)" in source and TICKING in source:
            continue  # in virtual time a pass of a loop that only spins takes longer than the timer
        try:
            outcome = oracle.run(source)
            # Otherwise a word that the oracle does not know would leave out every program that has it.
            assert outcome.error not in {"AttributeError", "NameError", "TypeError"}, (
                f"{outcome.error}\n{source}"
            )
            if CALLS_MIN <= outcome.calls <= CALLS_MAX:
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
        self._snapshots: dict[Point, Snapshot] = {}
        """What a kill leaves behind, at each point of the undisturbed play."""
        self._endings: dict[tuple[object, ...], list[tuple[Snapshot, Ending]]] = {}
        """What came of plays whose first worker left this behind; by what else they depend on."""

    def play(self, scenario: Scenario) -> Played | None:
        """Play it and judge; None, if the program has no such variant, or if it went the way of another play."""
        if self._application("") is None or self._application(scenario.variant) is None:
            return None
        self.report.plays += 1
        self.report.faults[scenario.name] += 1
        start = self._find_start(scenario)
        if start is None:
            return self._play_in_full(scenario)
        is_checked = self._is_checked(scenario)
        if is_checked:
            self.report.checked += 1
        elif len(scenario.faults) == 1 and self._find_ending(scenario, start) is not None:
            self.report.joined += 1
            return None
        played = self._play(scenario, start=start)
        assert played is not None
        self._judge(scenario, played)
        if len(scenario.faults) == 1:
            self._add_ending(scenario, start, played)
        if is_checked:
            self._compare(scenario, Ending.of(played), self._play(scenario))
        return played

    def _play_in_full(self, scenario: Scenario) -> Played | None:
        """Play it from the start; None, if its first worker leaves what another play went on from."""
        left: list[Snapshot] = []

        def is_known(snapshot: Snapshot) -> bool:
            left.append(snapshot)
            return not is_checked and self._find_ending(scenario, snapshot) is not None

        is_checked = self._is_checked(scenario)
        is_single = len(scenario.faults) == 1 and not (self.backend.is_real or scenario.faults[0].worker)
        played = self._play(scenario, is_known=is_known if is_single else None)
        if played is None:
            self.report.joined += 1
            return None
        self._judge(scenario, played)
        if left:
            ending = self._find_ending(scenario, left[0])
            if ending is not None:
                self.report.checked += 1
                self._compare(scenario, ending, played)
            self._add_ending(scenario, left[0], played)
        return played

    def _play(
        self,
        scenario: Scenario,
        start: Snapshot | None = None,
        is_known: Callable[[Snapshot], bool] | None = None,
    ) -> Played | None:
        first, second = self._application(""), self._application(scenario.variant)
        assert first is not None
        assert second is not None
        is_first = scenario == Scenario() and not self.backend.is_real
        return play(
            [first, second],
            scenario.faults,
            strict=scenario.strict,
            loop_kind=scenario.loop,
            backend=self.backend,
            start=start,
            is_known=is_known,
            snapshots=self._snapshots if is_first else None,
        )

    def _judge(self, scenario: Scenario, played: Played) -> None:
        is_single = scenario.faults and scenario == Scenario(scenario.faults[:1])
        is_single = is_single and not scenario.faults[0].worker
        if is_single and len(played.passed) > 1 and played.passed[1]:
            self._after_kill[scenario.faults[0]] = played.passed[1]
        failures = judge(self.program.outcome, played)
        self.report.found += [Found(scenario, failure) for failure in failures]

    # ── plays that need not be played whole ───────────────────────────────────────────────────────

    def _find_start(self, scenario: Scenario) -> Snapshot | None:
        """Where the play can go on, if its first worker is killed at a point of the undisturbed play."""
        if scenario.strict or scenario.loop or not scenario.faults or scenario.faults[0].kind != "kill":
            return None
        if scenario.faults[0].worker:
            return None
        return self._snapshots.get(scenario.faults[0].point)

    def _is_checked(self, scenario: Scenario) -> bool:
        return zlib.crc32(f"{self.program.number}/{scenario}".encode()) % CHECKED_ONE_OF == 0

    def _find_ending(self, scenario: Scenario, snapshot: Snapshot) -> Ending | None:
        known = self._endings.get((*scenario.form[1:], *snapshot.bucket), ())
        return next((ending for one, ending in known if one == snapshot), None)

    def _add_ending(self, scenario: Scenario, snapshot: Snapshot, played: Played) -> None:
        known = self._endings.setdefault((*scenario.form[1:], *snapshot.bucket), [])
        known.append((snapshot, Ending.of(played)))

    def _compare(self, scenario: Scenario, ending: Ending, played: Played | None) -> None:
        """Both ways to play it end alike."""
        assert played is not None
        if not ending.equals(Ending.of(played), by_luck=len(scenario.faults) > 1 or self._is_crowded):
            text = f"a play from a snapshot ends otherwise: {ending} and {Ending.of(played)}"
            self.report.found.append(Found(scenario, Failure("snapshot", text)))

    @property
    def _is_crowded(self) -> bool:
        """Whether two messages are sent to the session in one instant, after it has begun."""
        application = self._applications[""]
        times = [at for at, _ in application.messages.values() if at] if application is not None else []
        return len(set(times)) < len(times)

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
        for _ in range(LATER if is_deadly(self.program.source) and sampled else 0):
            yield from self._sample_later(calm)

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

    def _sample_later(self, calm: Played) -> Iterator[Scenario]:
        """A fault of a worker after the first, or of a child process."""
        number = self.chance.randrange(1, max(len(calm.passed), 2))
        points = calm.passed[number] if number < len(calm.passed) else ()
        points = [point for point in points if point.name != "after_intent_before_call"]
        if points:
            kind: Kind = self.chance.choice(("kill", "kill", "drain", "freeze"))
            yield Scenario((Fault(kind, self.chance.choice(points), number + 1),))

    def pair(self) -> Scenario | None:
        """The second worker is killed as well, at one of the points that it passes."""
        killed = [fault for fault in self._after_kill if fault.kind == "kill"]
        if not killed or HOLDS in self.program.source or is_deadly(self.program.source):
            return None  # one fault more would make a dead letter
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
    """Collect what dead processes leave behind at the end, without its warnings."""
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
