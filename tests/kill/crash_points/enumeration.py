"""Every crash point, one after the other: a scenario is played once to see what it passes, and then once for each.

    points = passed(scenario)                     # what a worker passes when nothing goes wrong, in order
    for cut in cuts(points):                      # dies there, or the reply is lost there
        for way in Way:                           # and who comes to take over
            play(scenario, [cut], way)            # raises if the outside saw too much, or too little

The witness is the scenario's own: the log of its receivers. A scenario says how often its effect may have happened when
nobody has said a word yet, and how often it must have in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec

from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.engine.runner_config import Program, RunnerConfig
from holdfast.model import job_state
from holdfast.model.hash_chain import find_break, unseal
from holdfast.model.ids import SequentialIds
from holdfast.model.jobs import JobDraft
from holdfast.model.mailbox import MailDraft
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import TERMINAL, MailKind, Status, WaitReason
from holdfast.store.memory.store import MemoryStore
from holdfast.testing.simulated_process import ProcessLoop, SimulatedProcess
from holdfast.testing.virtual_loop import LoopClock
from holdfast.testing.worker_errors import WorkerErrors
from holdfast.worker.worker import Worker
from tests.simulation.world.town import RarePolls
from tests.support.faulty_store import GO, Fate, FaultyStore, Kind

FROZEN_S: Final = 100.0
"""Longer than a lease, and than the quiet period of a call of half a minute."""

LONG_S: Final = 25 * 3600.0
POLLS_RARER: Final = 10
END_S: Final = 1000.0


class Way(StrEnum):
    """Who goes on."""

    RETURNS = "the same worker comes back"
    OTHER = "another takes over"
    ZOMBIE = "another takes over, and the first wakes up later"
    LATE = "nobody comes for a day"


class Cut(msgspec.Struct, frozen=True):
    """At its nth point a worker is cut off: it dies, or (`lost`) does not hear that its call was done."""

    nth: int
    point: str
    lost: bool = False


class Scenario(Protocol):
    """A job and its receivers, new for each play."""

    @property
    def programs(self) -> Mapping[str, Program]:
        """One kind of job, which is submitted once."""
        ...

    def clocked(self, loop: asyncio.AbstractEventLoop) -> None:
        """The time that its receivers live in."""
        ...

    def times(self) -> int:
        """How often the effect has happened, by its receivers' word."""
        ...

    def result(self, tool: str, key: str) -> Any:
        """What somebody finds who looks for this call: its result; None if it never happened."""
        ...

    @property
    def may_ask(self) -> bool:
        """Whether a call that was cut off may wait for a person's word."""
        ...


class Played(msgspec.Struct, frozen=True):
    """`passed` has one list of points for each worker that was started, in order."""

    passed: list[list[str]]
    asked: int
    status: Status
    output: Any


class CameOutWrong(AssertionError):
    """The rule that was broken, and where the worker was cut off."""


class _Stage:
    def __init__(self, scenario: Scenario, cuts: Sequence[Cut], way: Way, loop: ProcessLoop) -> None:
        self._scenario = scenario
        self._cuts = list(cuts)
        self._way = way
        self._loop = loop
        self._clock = LoopClock(loop)
        self._store = MemoryStore(self._clock, SequentialIds(1))
        self._ids = SequentialIds(2)
        self._over = False
        self._stranded = False
        self.passed: list[list[str]] = []
        self.asked = 0

    # ── workers ───────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """One more worker. Each is cut off at its own cut, if there is one left."""
        number = len(self.passed)
        process = self._loop.process(f"worker-{number}")
        points: list[str] = []
        self.passed.append(points)
        cut = self._cuts[number] if number < len(self._cuts) else None
        doomed: list[str] = []

        def fate(point: str) -> Fate:
            if point.startswith("wakeups") or self._over:
                return GO
            if doomed:
                return self._end(process)
            points.append(point)
            if cut is None or len(points) != cut.nth:
                return GO
            assert point == cut.point, f"the play is not the same again: {point} is not {cut.point}"
            if not cut.lost:
                return self._end(process)
            if self._way is not Way.RETURNS:
                doomed.append(point)  # it hears nothing, and is cut off at the next point
            return Fate(Kind.LOST)

        store = FaultyStore(self._store, fate, process)
        store.wakeups = RarePolls(self._store.wakeups, rarer=POLLS_RARER)
        desk = RunnerConfig(
            store,
            GroupCommit(store.journal),
            self._clock,
            self._scenario.programs,
            points=lambda point, _tool: self._at_point(process, fate(str(point))),
        )
        process.start(Worker(desk, process.name, lambda: self._ids.new("claim")).work())

    def _at_point(self, process: SimulatedProcess, fate: Fate) -> None:
        """The engine's points cannot wait: a freeze there begins at the next wait, a moment later."""
        if fate.kind is Kind.DIES:
            process.kill()
        elif fate.kind is Kind.FREEZES:
            process.freeze(fate.seconds)

    def _end(self, process: SimulatedProcess) -> Fate:
        """The worker is cut off here, and somebody comes."""
        if process.thaws_at is not None or process.dead:
            return GO
        if self._stranded and self._way is Way.ZOMBIE:
            return GO
        later = {Way.RETURNS: 1.0, Way.LATE: LONG_S}.get(self._way, 0.0)
        self._loop.root.call_later(later, self.start)
        if self._way is Way.ZOMBIE:
            self._stranded = True
            return Fate(Kind.FREEZES, FROZEN_S)
        return Fate(Kind.DIES)

    # ── the play ──────────────────────────────────────────────────────────────────────────────────

    async def play(self) -> Played:
        (kind,) = self._scenario.programs
        submitted = await self._store.jobs.submit(JobDraft(kind=kind, input="Ada"))
        self._job_id = submitted.job_id
        self.start()
        end_s = END_S + (LONG_S if self._way is Way.LATE else 0.0)
        while self._loop.time() < end_s:
            head = await self._store.jobs.head(self._job_id)
            if head.status in TERMINAL:
                break
            if head.wait_reason is WaitReason.RECONCILE and self._loop.time() > FROZEN_S + 1.0:
                await self._say()
            await sleep_on_loop(900.0 if self._way is Way.LATE and self._loop.time() < LONG_S else 2.0)
        self._over = True
        if self._way is Way.ZOMBIE:
            await sleep_on_loop(max(0.0, FROZEN_S + 10.0 - self._loop.time()))
        return await self._judged()

    async def _say(self) -> None:
        """Somebody looks, and says what is true."""
        self._must(self._scenario.times() <= 1, "it happened twice before anybody said a word")
        self._must(self._scenario.may_ask, "somebody had to be asked")
        for row in await self._store.ledger.list(self._job_id, status=CallStatus.UNCERTAIN):
            self.asked += 1
            result = self._scenario.result(row.tool_name, row.idempotency_key)
            body = {
                "step_key": row.step_key,
                "generation": row.generation,
                "decision": "not_happened" if result is None else "happened",
                "why": "somebody looked",
                "result": result,
            }
            letter = MailDraft(
                job_id=self._job_id, kind=MailKind.RECONCILE, operation_id=self._ids.new("op"), body=body
            )
            await self._store.post.send(letter)

    async def _judged(self) -> Played:
        head = await self._store.jobs.head(self._job_id)
        sealed = await self._store.journal.read(self._job_id)
        self._must(find_break(self._job_id, sealed) is None, "the chain is broken")
        job = job_state.fold((one.seq, one.fence, unseal(one)) for one in sealed)
        self._must(head.status is Status.COMPLETED, f"the job is {head.status} for {head.wait_reason}")
        self._must(self._scenario.times() == 1, f"it happened {self._scenario.times()} times")
        rows = await self._store.ledger.list(self._job_id)
        settled = {CallStatus.SUCCEEDED, CallStatus.ABANDONED}
        self._must({row.status for row in rows} <= settled, "a call was left open")
        self._must(not self._loop.complaints, str(self._loop.complaints))
        return Played(self.passed, self.asked, head.status, job.output)

    def _must(self, holds: bool, what: str) -> None:
        if not holds:
            raise CameOutWrong(f"{what}; cut off at {self._cuts}, {self._way}")


def play(scenario: Scenario, cuts: Sequence[Cut] = (), way: Way = Way.OTHER) -> Played:
    """The scenario with the first worker cut off at the first cut, the next at the second; raises CameOutWrong."""
    heard = WorkerErrors()
    with ProcessLoop(passes_max=200_000) as loop, heard.listening():
        scenario.clocked(loop)
        return loop.run_until_complete(_Stage(scenario, cuts, way, loop).play())


def cuts(points: Sequence[str]) -> Iterator[Cut]:
    """Each of these points, each way of being cut off there."""
    for nth, point in enumerate(points, 1):
        yield Cut(nth, point)
        if point.endswith(":after"):
            yield Cut(nth, point, lost=True)
