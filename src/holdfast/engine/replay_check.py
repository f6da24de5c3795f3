"""Replay check: runs the function of a job that has ended over its journal, without any effect on the outside.

    replayed = await replay(store, job_id, program, clock=clock)
    replayed.same            the code made the recorded calls, and returned the same output
    replayed.difference      the first place where it did not: the recorded call, and the call that the code made

Every recorded call returns its recorded result. A call that is not recorded is not made: it stays open, the rest of
the code continues as far as the journal goes, and when everything has come to rest the replay ends. Nothing is
written, either. So a replay may be run against a live store, by any client, any number of times.

A job that completed must return its output again. One that was cancelled, or failed, was ended from outside somewhere:
its replay must come to the end of the record, and that is all that is checked.

A replay waits for no timer of the code: one that was due before the journal ends fires at once, a later one never.
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
from holdfast.model.hash_chain import SealedEvent, find_break, unseal
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.replay_history import History, Recorded
from holdfast.model.states import TERMINAL, Status, WaitReason
from holdfast.model.step_keys import is_within, scope_of
from holdfast.store.clock import Clock
from holdfast.store.contract import Store


class ReplayedStep(msgspec.Struct, frozen=True):
    """A call as recorded, or as the code makes it. `seq` is its place in the journal."""

    step_key: str
    name: str
    args_digest: str = ""
    args: Any = None
    seq: int | None = None


class Difference(msgspec.Struct, frozen=True):
    """The first place where code and journal differ."""

    why: str
    recorded: ReplayedStep | None = None
    attempted: ReplayedStep | None = None


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a replay. `output_digest` is the digest of what the code returned, if it did."""

    job_id: str
    status: Status
    steps: int
    output: Any = None
    output_digest: str | None = None
    difference: Difference | None = None

    @property
    def same(self) -> bool:
        return self.difference is None


async def replay(store: Store, job_id: str, program: Program, *, clock: Clock) -> ReplayResult:
    """Runs the job's function over its journal; makes no call and writes nothing."""
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
) -> ReplayResult:
    """The same for a journal from anywhere: a store, an export, a test.

    Messages of a session are read from the store.
    """
    record = _Record(job_id, sealed)
    execution = _Replay(record, clock, Owner(namespace, job_id, record.job.fence, record.session_id), store)
    return await _compare_run(record, execution, program)


class _Record:
    """The journal of a job that has ended, as a replay needs it."""

    def __init__(self, job_id: str, sealed: Sequence[SealedEvent]) -> None:
        self.job_id = job_id
        if not sealed:
            msg = f"there is no job {job_id!r}"
            raise NotFound(msg)
        if find_break(job_id, sealed) is not None:
            msg = f"the journal of job {job_id} is damaged"
            raise Broken(msg)
        self.job = job_state.JobState()
        self.history = _TrackingHistory()
        self.given: Any = None
        self.session_id: str | None = None
        self._steps: dict[str, ReplayedStep] = {}
        self._optional: set[str] = set()
        for sealed_event in sealed:
            event = unseal(sealed_event)
            job_state.step(self.job, sealed_event.seq, sealed_event.fence, event)
            self.history.take(sealed_event.seq, event, sealed_event.at)
            self._take(sealed_event.seq, event)
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
                # The next attempt need not repeat the calls of the failed one.
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
                # The calls that the planner made are not repeated.
                self._optional |= {key for key in self._steps if is_within(scope_of(event.step_key), key)}
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
        """The first recorded call that the code has not made."""
        for step_key, step in self._steps.items():
            if step_key not in self.history.asked and step_key not in self._optional:
                return step
        return None


def _name(step_key: str) -> str:
    return step_key.rpartition("/")[2].rpartition("#")[0]


class _TrackingHistory(History):
    """A history that remembers which calls were looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, str] = {}

    def find(self, step_key: str, args_digest: str) -> Recorded | None:
        recorded = super().find(step_key, args_digest)
        self.asked[step_key if recorded is None else recorded.step_key] = args_digest
        return recorded


# ── a run without effects ─────────────────────────────────────────────────────────────────────────


class _EndOfJournal(Exception):
    """The code has come to the end of the journal."""


class _Replay(Execution):
    """A run that makes no call and writes no event. `attempted` is the first call or event that it would have made."""

    def __init__(self, record: _Record, clock: Clock, owner: Owner, store: Store | None) -> None:
        super().__init__(
            record.history, _RefusingRecorder(self), _JournalClock(record.history, clock), owner, store=store
        )
        self.attempted: ReplayedStep | None = None
        self.acts = _NoSideEffects(self)  # type: ignore[assignment]
        self.waits = _NoWaits(self, clock)

    async def perform(
        self,
        call: DurableCall,
        place: TaskScope,
        step_key: str,
        key: str = "",
        longest_us: int | None = None,
    ) -> tuple[Any, Exception | None]:
        await self.beyond(_describe_step(call, step_key))

    async def beyond(self, step: ReplayedStep) -> NoReturn:
        """Never returns: the call is not in the journal, so it has no outcome."""
        self.attempted = self.attempted or step
        self.look()
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody resolves it")

    def wrote(self, event: e.Event) -> None:
        """Ends the replay: the code did something that would record an event, and the journal has no such event."""
        step_key = getattr(event, "step_key", "")
        self.attempted = self.attempted or ReplayedStep(
            step_key, event.type, getattr(event, "args_digest", "")
        )
        self.stop(_EndOfJournal())

    def _name_orphans(self) -> None:
        """Does nothing: they were logged when the job ran."""

    def park_repurchase(
        self, name: str, key: str, digest: str, recorded: Recorded, fields: tuple[str, ...]
    ) -> None:
        self.attempted = self.attempted or ReplayedStep(key, name, digest)
        self.stop(_EndOfJournal())

    def _park(self, why: str, recorded: list[Recorded], call: DurableCall, key: str) -> None:
        self.attempted = self.attempted or _describe_step(call, key)
        self.stop(_EndOfJournal())

    def _move(self, key: str, digest: str, recorded: Recorded) -> Recorded | None:
        """Maps a recorded call that the code makes under another name: it is the same call."""
        return self.history.find(recorded.step_key, digest)

    def _at_rest(self, is_polling: bool) -> bool:
        if self.attempted is None and super()._at_rest(is_polling):
            return True
        if self._root.done():
            return False
        timer_us = self.scheduler.next_timer_us
        is_over = timer_us is None or timer_us > self.clock.wall_us()
        if self.attempted is not None or (is_over and not self.scheduler.externals and not is_polling):
            self.stop(_EndOfJournal())
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
    """Waits of a replay: one that the journal does not end never ends."""

    def __init__(self, execution: _Replay, clock: Clock) -> None:
        super().__init__(clock, execution.look)
        self._execution = execution

    async def wait_for_topic(self, reason: WaitReason, topic: str, due_at: int | None = None) -> bool:
        await self._execution.beyond(ReplayedStep(topic, reason))


class _NoSideEffects:
    """Makes no effect, no second attempt and no probe. A denied approval is denied again."""

    def __init__(self, execution: _Replay) -> None:
        self._execution = execution

    async def act(
        self, call: DurableCall, place: TaskScope, key: str, digest: str, recorded: Recorded | None
    ) -> NoReturn:
        generation = self._execution.history.next_generation(key)
        await approvals.find_approval(self._execution, call, key, digest, generation)
        await self._execution.beyond(_describe_step(call, key))


def _describe_step(call: DurableCall, step_key: str) -> ReplayedStep:
    return ReplayedStep(step_key, call.name, _digest(call.identity), call.args)


class _RefusingRecorder:
    """Recorder of a replay: ends it at the first event."""

    def __init__(self, execution: _Replay) -> None:
        self._execution = execution

    def record(self, event: e.Event, **_beside: Any) -> Stamp:
        self._execution.wrote(event)
        return Stamp(2**62, self._execution.history.last_at)

    async def durable(self) -> None:
        """Returns at once: nothing was recorded."""


# ── judging ───────────────────────────────────────────────────────────────────────────────────────


async def _compare_run(record: _Record, execution: _Replay, program: Program) -> ReplayResult:
    output: Any = None
    error: Exception | None = None
    ended = False
    try:
        output = await execution.run(lambda: program(execution, record.given))
        if isinstance(output, TurnOutput):
            output = output.output
    except Failed as failed:
        error = failed.error
    except (_EndOfJournal, Asleep):
        ended = True
    returned = not ended and error is None
    difference = _find_divergence(record, execution) or _compare_ends(
        record, execution, output, error, ended=ended
    )
    return ReplayResult(
        job_id=record.job_id,
        status=record.status,
        steps=len(record.history.asked),
        output=output,
        output_digest=_digest(output) if returned else None,
        difference=difference,
    )


def _find_divergence(record: _Record, execution: _Replay) -> Difference | None:
    """The place where the code made another call than the recorded one, or left a recorded call out."""
    attempted = execution.attempted
    recorded = None if attempted is None else record.find(attempted.step_key)
    if attempted is not None and recorded is not None and recorded.args_digest != attempted.args_digest:
        return Difference("the call was made with other arguments", recorded, attempted)
    missed = record.not_asked_for()
    if missed is None:
        return None
    if attempted is None:
        return Difference("the code no longer makes a recorded call", missed)
    return Difference("the code makes another call than the recorded one", missed, attempted)


def _compare_ends(
    record: _Record, execution: _Replay, output: Any, error: Exception | None, *, ended: bool
) -> Difference | None:
    """The difference between the ends of the code and of the job."""
    if record.status is not Status.COMPLETED:
        return None  # it was ended from outside, and the whole record has been replayed
    if ended:
        why = (
            "the code makes a call that is not recorded" if execution.attempted else "the code waits for more"
        )
        return Difference(why, attempted=execution.attempted)
    if error is not None:
        return Difference(f"the code raised {type(error).__qualname__}: {error}")
    if _digest(output) != _digest(record.job.output):
        return Difference(f"the code returned {_digest(output)}, the job {_digest(record.job.output)}")
    return None


def _digest(value: Any) -> str:
    return canonical.hex_digest(canonical.encode(value))
