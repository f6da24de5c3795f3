"""Replay of a job that is over, as a check: its function over its journal, with nothing that could reach the outside.

    replayed = await replay(store, job_id, program, clock=clock)
    replayed.same            the code went the way that the journal tells, to the same output
    replayed.difference      the first place where it did not: what is recorded, and what the code asked for instead

Every call that the journal knows is handed back. A call that it does not know is not made: it stays open, the rest of
the code goes on as far as the journal carries it, and when everything has come to rest the replay is over. Nothing is
written, either. So a replay may be run against a live store, by anybody, any number of times.

A job that completed must return again what it returned. One that was cancelled, or failed, was ended from outside
somewhere: its replay must come to the end of the record, and no further is asked of it.

No timer of the code is waited for: one that was due before the journal ends fires at once, a later one never.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec

from holdfast.engine import approvals
from holdfast.engine.durable_call import DurableCall, Owner
from holdfast.engine.execution import Execution
from holdfast.engine.journal_writer import Stamp
from holdfast.engine.run_outcomes import Asleep, Failed, TurnOutput
from holdfast.engine.runner_config import Program
from holdfast.engine.task_scopes import TaskScope
from holdfast.engine.wait_set import WaitSet
from holdfast.errors import Broken, InvalidMove, NotFound
from holdfast.model import canonical, job_state
from holdfast.model import events as e
from holdfast.model.hash_chain import SealedEvent, first_break, unseal
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.replay_history import History, Recorded
from holdfast.model.states import TERMINAL, Status, WaitReason
from holdfast.model.step_keys import scope_of, within
from holdfast.store.clock import Clock
from holdfast.store.contract import Store


class ReplayedStep(msgspec.Struct, frozen=True):
    """A call as the journal has it, or as the code asks for it. `seq` is its place in the journal."""

    step_key: str
    name: str
    args_digest: str = ""
    args: Any = None
    seq: int | None = None


class Difference(msgspec.Struct, frozen=True):
    """The first place where code and journal part."""

    why: str
    recorded: ReplayedStep | None = None
    attempted: ReplayedStep | None = None


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a replay. `output_digest` is that of what the code returned, if it did."""

    job_id: str
    status: Status
    steps: int
    output: Any = None
    output_digest: str | None = None
    difference: Difference | None = None

    @property
    def same(self) -> bool:
        return self.difference is None


async def replay(store: Store, job_id: str, program: Program, *, clock: Clock) -> Replayed:
    """The job's function has run over its journal; nothing was called and nothing was written."""
    record = await store.jobs.get(job_id)
    sealed = await store.journal.read(job_id)
    return await replay_journal(job_id, sealed, program, clock=clock, namespace=record.namespace, store=store)


async def replay_journal(
    job_id: str,
    sealed: Sequence[SealedEvent],
    program: Program,
    *,
    clock: Clock,
    namespace: str = DEFAULT_NAMESPACE,
    store: Store | None = None,
) -> Replayed:
    """The same, of a journal that lies anywhere: in a store, in an export, in a test.

    What was said in a session is read from the store."""
    told = _Record(job_id, sealed)
    execution = _Replay(told, clock, Owner(namespace, job_id, told.job.fence, told.session_id), store)
    return await _judged(told, execution, program)


class _Record:
    """The journal of a job that is over, as a replay needs it."""

    def __init__(self, job_id: str, sealed: Sequence[SealedEvent]) -> None:
        self.job_id = job_id
        if not sealed:
            msg = f"there is no job {job_id!r}"
            raise NotFound(msg)
        if first_break(job_id, sealed) is not None:
            msg = f"the journal of job {job_id} is damaged"
            raise Broken(msg)
        self.job = job_state.JobState()
        self.history = _Asking()
        self.given: Any = None
        self.session_id: str | None = None
        self._steps: dict[str, ReplayedStep] = {}
        self._optional: set[str] = set()
        for one in sealed:
            event = unseal(one)
            job_state.step(self.job, one.seq, one.fence, event)
            self.history.take(one.seq, event, one.at)
            self._take(one.seq, event)
        if self.job.status not in TERMINAL:
            msg = f"job {job_id} is {self.job.status}; only a job that has ended can be replayed"
            raise InvalidMove(msg, hint="Wait until it ends, or cancel it: holdfast cancel ID")

    @property
    def status(self) -> Status:
        assert self.job.status is not None
        return self.job.status

    def _take(self, seq: int, event: e.Event) -> None:
        match event:
            case e.JobCreated():
                self.given, self.session_id = event.input, event.session_id
            case e.CheckpointSaved():
                self._steps, self._optional = {}, set()
            case e.JobRequeued() if event.rerun:
                # What the failed attempt did on its way out, the next one need not do.
                self._optional = set(self._steps)
            case e.ToolCalled():
                self._note(ReplayedStep(event.step_key, event.tool, event.args_digest, event.args, seq))
            case e.StepFinished() | e.CallCancelled():
                self._note(ReplayedStep(event.step_key, _name(event.step_key), event.args_digest, seq=seq))
            case e.TimerSet() | e.SignalTaken():
                self._note(ReplayedStep(event.step_key, _name(event.step_key), seq=seq))
            case e.LlmRequested():
                self._note(ReplayedStep(event.step_key, _name(event.step_key), event.args_digest, seq=seq))
            case e.ChildStarted():
                self._note(ReplayedStep(event.step_key, event.kind, event.args_digest, seq=seq))
            case e.PlanGenerated():
                # What the planner did to make it, it does not do again.
                self._optional |= {key for key in self._steps if within(scope_of(event.step_key), key)}
                self._note(ReplayedStep(event.step_key, "plan", seq=seq))
            case e.QuestionAsked():
                self._note(ReplayedStep(event.step_key, "ask", seq=seq))
            case _:
                pass

    def _note(self, step: ReplayedStep) -> None:
        self._steps.setdefault(step.step_key, step)

    def find(self, step_key: str) -> ReplayedStep | None:
        return self._steps.get(step_key)

    def not_asked_for(self) -> ReplayedStep | None:
        """The first call in the journal that the code has not come to."""
        for step_key, step in self._steps.items():
            if step_key not in self.history.asked and step_key not in self._optional:
                return step
        return None


def _name(step_key: str) -> str:
    return step_key.rpartition("/")[2].rpartition("#")[0]


class _Asking(History):
    """A history that knows what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, str] = {}

    def find(self, step_key: str, args_digest: str) -> Recorded | None:
        recorded = super().find(step_key, args_digest)
        self.asked[step_key if recorded is None else recorded.step_key] = args_digest
        return recorded


# ── a run without hands ───────────────────────────────────────────────────────────────────────────


class _Ended(Exception):
    """The code has come as far as the journal carries it."""


class _Replay(Execution):
    """A run that makes no call and writes no fact. The first thing it would have done is kept in `attempted`."""

    def __init__(self, told: _Record, clock: Clock, owner: Owner, store: Store | None) -> None:
        super().__init__(
            told.history, _Refusing(self), _JournalClock(told.history, clock), owner, store=store
        )
        self.attempted: ReplayedStep | None = None
        self.acts = _NoActs(self)  # type: ignore[assignment]
        self.waits = _NoWaits(self, clock)

    async def perform(
        self,
        call: DurableCall,
        place: TaskScope,
        step_key: str,
        key: str = "",
        longest_us: int | None = None,
    ) -> tuple[Any, Exception | None]:
        await self.beyond(_step(call, step_key))

    async def beyond(self, step: ReplayedStep) -> NoReturn:
        """The journal does not go this far: nothing comes of the call."""
        self.attempted = self.attempted or step
        self.look()
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody resolves it")

    def wrote(self, event: e.Event) -> None:
        """The code did something that makes a fact, and the journal has no such fact."""
        step_key = getattr(event, "step_key", "")
        self.attempted = self.attempted or ReplayedStep(
            step_key, event.type, getattr(event, "args_digest", "")
        )
        self.stop(_Ended())

    def _name_orphans(self) -> None:
        """Said when the job ran."""

    def park_repurchase(
        self, name: str, key: str, digest: str, recorded: Recorded, fields: tuple[str, ...]
    ) -> None:
        self.attempted = self.attempted or ReplayedStep(key, name, digest)
        self.stop(_Ended())

    def _park(self, why: str, recorded: list[Recorded], call: DurableCall, key: str) -> None:
        self.attempted = self.attempted or _step(call, key)
        self.stop(_Ended())

    def _move(self, key: str, digest: str, recorded: Recorded) -> Recorded | None:
        """The code makes a recorded call under another name: it is the same call."""
        return self.history.find(recorded.step_key, digest)

    def _at_rest(self, is_polling: bool) -> bool:
        if self.attempted is None and super()._at_rest(is_polling):
            return True
        if self._root.done():
            return False
        timer_us = self.scheduler.next_timer_us
        is_over = timer_us is None or timer_us > self.clock.wall_us()
        if self.attempted is not None or (is_over and not self.scheduler.externals and not is_polling):
            self.stop(_Ended())
        return False


class _JournalClock:
    """The time at which the journal ends: no timer of the code that was due later has fired."""

    def __init__(self, history: History, clock: Clock) -> None:
        self._history = history
        self._clock = clock

    def wall_us(self) -> int:
        return self._history.last_at

    def tick_us(self) -> int:
        return self._clock.tick_us()

    def boot(self) -> str:
        return self._clock.boot()


class _NoWaits(WaitSet):
    """What the journal does not know does not come."""

    def __init__(self, execution: _Replay, clock: Clock) -> None:
        super().__init__(clock, execution.look)
        self._execution = execution

    async def look_again(self, reason: WaitReason, topic: str, due_at: int | None = None) -> bool:
        await self._execution.beyond(ReplayedStep(topic, reason))


class _NoActs:
    """No effect is made, sent again, or asked about. What a person has refused is refused again."""

    def __init__(self, execution: _Replay) -> None:
        self._execution = execution

    async def act(
        self, call: DurableCall, place: TaskScope, key: str, digest: str, recorded: Recorded | None
    ) -> NoReturn:
        generation = self._execution.history.next_generation(key)
        await approvals.find_approval(self._execution, call, key, digest, generation)
        await self._execution.beyond(_step(call, key))


def _step(call: DurableCall, step_key: str) -> ReplayedStep:
    return ReplayedStep(step_key, call.name, _digest(call.identity), call.args)


class _Refusing:
    """Where a replay's facts would go."""

    def __init__(self, execution: _Replay) -> None:
        self._execution = execution

    def record(self, event: e.Event, **_beside: Any) -> Stamp:
        self._execution.wrote(event)
        return Stamp(2**62, self._execution.history.last_at)

    async def durable(self) -> None:
        """Everything that was recorded is on disk: nothing was."""


# ── judging ───────────────────────────────────────────────────────────────────────────────────────


async def _judged(told: _Record, execution: _Replay, program: Program) -> Replayed:
    output: Any = None
    error: Exception | None = None
    ended = False
    try:
        output = await execution.run(lambda: program(execution, told.given))
        if isinstance(output, TurnOutput):
            output = output.output
    except Failed as failed:
        error = failed.error
    except (_Ended, Asleep):
        ended = True
    returned = not ended and error is None
    difference = _parted(told, execution) or _end(told, execution, output, error, ended=ended)
    return Replayed(
        job_id=told.job_id,
        status=told.status,
        steps=len(told.history.asked),
        output=output,
        output_digest=_digest(output) if returned else None,
        difference=difference,
    )


def _parted(told: _Record, execution: _Replay) -> Difference | None:
    """Where the code asked for something else than the journal has, or passed over something that it has."""
    attempted = execution.attempted
    recorded = None if attempted is None else told.find(attempted.step_key)
    if attempted is not None and recorded is not None and recorded.args_digest != attempted.args_digest:
        return Difference("the call was made with other arguments", recorded, attempted)
    missed = told.not_asked_for()
    if missed is None:
        return None
    if attempted is None:
        return Difference("the code no longer makes a recorded call", missed)
    return Difference("the code makes another call than the recorded one", missed, attempted)


def _end(
    told: _Record, execution: _Replay, output: Any, error: Exception | None, *, ended: bool
) -> Difference | None:
    """How the code ended, against how the job did."""
    if told.status is not Status.COMPLETED:
        return None  # it was ended from outside, and the record has been walked to its end
    if ended:
        why = (
            "the code makes a call that is not recorded" if execution.attempted else "the code waits for more"
        )
        return Difference(why, attempted=execution.attempted)
    if error is not None:
        return Difference(f"the code raised {type(error).__qualname__}: {error}")
    if _digest(output) != _digest(told.job.output):
        return Difference(f"the code returned {_digest(output)}, the job {_digest(told.job.output)}")
    return None


def _digest(value: Any) -> str:
    return canonical.hex_digest(canonical.encode(value))
