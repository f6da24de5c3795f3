"""Job runner: runs one claimed job until it ends, is suspended, or belongs to another worker.

    read the journal → read the mailbox → run the function → write how the run ended

If this process dies in between, the journal says where the job stands, and the next claim starts here again. How a run
can end, and what is written for it:

    function returned    job_completed
    function raised      job_requeued, and after too many attempts job_dead_lettered: held for a person, with the causes
    all tasks sleep      job_waiting; no worker holds the job until it is due
    job cancelled        cancel_requested, job_cancelled
    job timed out        job_failed: its deadline has passed, whatever the code did (`model.job_deadline`)
    code does not fit    job_parked, with a report
    lease lost           nothing: another worker may hold the job
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from holdfast.engine import budgets, failures
from holdfast.engine.checkpoints import find_unproven
from holdfast.engine.children import make_final_mail
from holdfast.engine.execution import Execution
from holdfast.engine.journal_loader import load_journal, replay_events
from holdfast.engine.journal_writer import JournalWriter, PendingEvent, Stamp
from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.engine.mailbox import MailboxReader, find_topic
from holdfast.engine.replay_scheduler import UNMARKED
from holdfast.engine.run_outcomes import Asleep, Failed, Interrupted, Parked, Stalled, TurnOutput, Uncovered
from holdfast.engine.runner_config import RunnerConfig
from holdfast.engine.streams import JobStream, StreamWriter
from holdfast.errors import Broken, Fenced, HoldfastError, InvalidSetting, Misuse, Unavailable
from holdfast.model import job_state, lease
from holdfast.model.append import NOTHING, Extras, Holder, Move
from holdfast.model.crash_suspects import dies_daily, is_suspect
from holdfast.model.events import (
    ChildStarted,
    Event,
    JobCancellation,
    JobClaimed,
    JobCompleted,
    JobCreated,
    JobDeadLettered,
    JobFailure,
    JobParked,
    JobReleased,
    JobRequeued,
    JobStalled,
    JobWaiting,
)
from holdfast.model.hash_chain import EMPTY, Head, SealedEvent, unseal
from holdfast.model.job_deadline import JobDeadline, find_deadline, wake_by
from holdfast.model.lease import Grant
from holdfast.model.mailbox import Mail
from holdfast.model.python_pin import find_misfit
from holdfast.model.replay_history import History, Recorded
from holdfast.model.retry import CALL_RETRY, delay
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import Status, WaitReason
from holdfast.store.clock import Clock
from holdfast.store.ports.leases import HeldLease

AGAIN_S: Final = 0.2
GIVE_BACK_S: Final = 2.0
"""How long an interpreter that exits waits until a job is released."""

DRAINED: Final = JobReleased().why
LOST: Final = "lost"
SUSPECT: Final = "suspect"
"""Result of a run that has executed nothing: its job must run isolated, in its own process (`model.crash_suspects`)."""

_OPEN: Final = frozenset({CallStatus.PREPARED, CallStatus.UNCERTAIN})
_HANDS: Final = frozenset({JobClaimed.type, JobRequeued.type})
T = TypeVar("T")


class Cancelled(Exception):
    """The job was cancelled by command."""


class TimedOut(Exception):
    """The deadline of the whole job has passed."""


class Drained(Exception):
    """The worker stops, and releases the job."""


class Lost(Exception):
    """This run has lost the job's lease."""


class JobRun:
    """Run of one claimed job."""

    def __init__(
        self,
        config: RunnerConfig,
        grant: Grant,
        *,
        covers: Callable[[str], bool] = lambda _job_id: True,
        asked_at: int | None = None,
    ) -> None:
        self._journal: Sequence[SealedEvent] | None = grant.journal or None
        self.config = config
        self.grant = grant
        self.held = HeldLease(grant.job_id, grant.fence, grant.lease_token)
        self._covers = covers
        self._clock: Clock = config.clock
        self._writer = self._open()
        self._granted_tick = config.clock.tick_us()
        self._asked_tick = self._granted_tick if asked_at is None else asked_at
        self._execution: Execution | None = None
        self._reading: asyncio.Task[None] | None = None
        self._created: JobCreated | None = None
        self._deadline: JobDeadline | None = None
        self._history = History()
        self._outlet: JobStream | None = None
        self._mailbox = MailboxReader(
            grant.namespace, grant.job_id, grant.fence, self._history, self._reserve
        )
        self._ending = False
        self._leaving = False
        self._leaving_why = DRAINED
        self._is_suspect = False
        self._news = False
        self.ended_with: Event | None = None
        """The last event of this run, once it is durable."""
        self.wakes_at: int | None = None
        """When a suspended job is due again, in store time."""

    @property
    def has_journal(self) -> bool:
        """Whether the journal came with the claim, or the worker has loaded it for this run since."""
        return self._journal is not None

    def give_journal(self, journal: Sequence[SealedEvent]) -> None:
        """Sets the journal, which the worker has read together with those of other runs."""
        self._journal = journal

    async def go(self) -> str:
        """Runs the job. Returns how the run ended: a status, `suspect`, or `lost`. No task of the run is left."""
        try:
            return await self._go()
        except asyncio.CancelledError:
            await self._give_back()
            raise
        except (Lost, HoldfastError):
            if self._writer.lost is None:
                raise
            if isinstance(self._writer.lost, Misuse):
                return await self._fail_unwritable(self._writer.lost)
            return LOST
        finally:
            if self._reading is not None:
                self._reading.cancel()
            if self._outlet is not None:
                self._outlet.close()

    async def _give_back(self) -> None:
        """Releases the job at once when the loop or the process ends, if the store can be reached. If not, another
        worker takes the job over when the lease has expired."""
        if self._execution is None or self._writer.lost is not None:
            return
        with contextlib.suppress(Exception):
            async with asyncio.timeout(GIVE_BACK_S):
                if self._ending:
                    await self._writer.durable()
                else:
                    await self._end(JobReleased(why="interrupted"), Move(status=Status.PENDING))

    async def _fail_unwritable(self, error: Misuse) -> str:
        """Fails the attempt: the code produced a value that is not valid JSON for a journal. The run still holds the
        job."""
        self._writer = self._open(self._writer.holder, self._writer.mail_seen, self._writer.last_at)
        return await self._record_failure(Failed(error, ()))

    def _open(self, holder: Holder | None = None, mail_seen: int = 0, last_at: int = 0) -> JournalWriter:
        grant = self.grant
        head = Head(grant.head_seq, grant.head_hash)
        return JournalWriter(
            holder or Holder(grant.job_id, grant.namespace, grant.fence, grant.lease_token, head),
            mail_seen=mail_seen,
            last_at=last_at,
            clock=self._clock,
            courier=self.config.committer,
            on_mail=self._start_reading_mail,
            on_loss=self._stop_lost,
        )

    async def _go(self) -> str:
        if self.config.isolates and is_suspect(self.grant.takeovers):
            return SUSPECT
        try:
            job = await self._load()
        except HoldfastError as error:
            if isinstance(error, Unavailable) or not is_suspect(self.grant.takeovers):
                raise
            # Every worker that took it over met the same error: it is held for a person, and not claimed again.
            self._writer.mark_read(self.grant.mail_seq)
            return await self._make_dead_letter("its journal cannot be read", failures.record_error(error))
        if self._is_suspect:
            return SUSPECT
        self._writer.mark_read(job.mail_seq)
        if self.grant.mail_seq > job.mail_seq:
            await self._read_mail()
        if self._mailbox.cancelled or job.cancel_requested:
            return await self._end(JobCancellation(), Move(status=Status.CANCELLED))
        if self._mailbox.requeued is not None:
            return await self._end(self._mailbox.requeued, Move(status=Status.PENDING, anew=True))
        if self._is_too_late():
            return await self._time_out(call.tool for call in job.calls.values() if call.status in _OPEN)
        if self._is_poison():
            return await self._make_dead_letter("it failed too often", None)
        return await self._drive_on()

    def _is_poison(self) -> bool:
        return lease.is_poison(
            failed_attempts=self.grant.attempts,
            failed_attempts_max=self.config.attempts_for(self.grant.kind),
        )

    async def hand_back(self, why: str, wait_us: int = 0) -> str:
        """Releases a job that this run has not executed; it is ready again after this time."""
        self._writer.mark_read(self.grant.mail_seq)
        ready_at = self._clock.wall_us() + wait_us if wait_us else 0
        return await self._end(JobReleased(why=why), Move(status=Status.PENDING, ready_at=ready_at))

    async def _load(self) -> job_state.JobState:
        """Loads the journal, checks that it is consistent and ends at the head of the claim, and replays it."""
        grant = self.grant
        sealed = self._journal
        if sealed is None:
            sealed = await load_journal(self.config.store.journal, grant, self.config.short)
        if sealed and sealed[-1].seq > grant.head_seq and sealed[-1].fence > grant.fence:
            # Loading took so long that the lease expired, and another worker holds the job.
            self.lose(Fenced(f"job {grant.job_id} was taken over before it was read"))
            raise Lost
        head = Head(sealed[-1].seq, sealed[-1].hash) if sealed else EMPTY
        if head != Head(grant.head_seq, grant.head_hash):
            msg = f"the journal of job {grant.job_id} does not match its head"
            raise Broken(msg)
        self._clock = StoreTime(self.config.clock, sealed[-1].at, self._granted_tick)
        self._writer.resume(self._clock)  # an unreadable journal gets its last event in store time, too
        if self.config.isolates and grant.takeovers:  # a worker has just died: how many have died today?
            holder_changes = (
                (sealed_event.at, unseal(sealed_event))
                for sealed_event in sealed
                if sealed_event.type in _HANDS
            )
            self._is_suspect = dies_daily(holder_changes, self._clock.wall_us())
        job, created = replay_events(grant.job_id, sealed, self._history)
        self._writer.resume(self._clock, self._history.last_at)
        if isinstance(created, JobCreated):
            self._created = created
            self._deadline = find_deadline(
                created, sealed[0].at, self._history.resumed_at, self.config.timeout_for(grant.kind)
            )
            self._history.budgets = budgets.owner_of(grant, created).budgets
        return job

    async def _drive_on(self) -> str:
        program = self.config.program_for(self.grant.kind)
        if program is None:
            msg = f"this process has no code for jobs of kind {self.grant.kind!r}"
            raise InvalidSetting(msg, hint="Claim only kinds that this process has code for.")
        pinned = None if self._created is None else self._created.python_version
        report = find_misfit(pinned, self.config.python, self._history.pythons)
        if report is None:
            report = await find_unproven(self.config.inspect, self._history, self.config.meter)
        if report is not None:
            return await self._end(JobParked(report), Move(status=Status.WAITING, reason=WaitReason.DRIFT))
        if self._leaving:
            return await self._end(JobReleased(why=self._leaving_why), Move(status=Status.PENDING))
        job_input = None if self._created is None else self._created.input
        self._outlet = await self._open_outlet()
        owner = budgets.owner_of(self.grant, self._created)
        execution = self._execution = self.config.execution(
            self._history,
            self._writer,
            self._clock,
            owner,
            strict=self.config.strict,
            points=self.config.points,
            covered=lambda: self._covers(self.grant.job_id),
            inspect=self.config.inspect,
            gone=self.config.gone,
            dead=self.config.dead,
            host_clock=self.config.clock,
            unsure_us=self._granted_tick - self._asked_tick,
            outlet=self._outlet,
            chance=self.config.chance,
            io_monitor=self.config.io_monitor,
            store=self.config.store,
            meter=self.config.meter,
        )
        if self._writer.lost is not None:
            raise self._writer.lost
        try:
            with self._stop_at_deadline(execution):
                output = await execution.run(lambda: program(execution, job_input))
        except Failed as failed:
            return await self._record_failure(failed)
        except Asleep as asleep:
            wake_at = wake_by(asleep.wake_at, self._deadline)
            move = Move(status=Status.WAITING, reason=asleep.reason, wake_at=wake_at)
            event = JobWaiting(asleep.reason, wake_at, self._writer.mail_seen)
            return await self._end(event, move)
        except Parked as parked:
            move = Move(status=Status.WAITING, reason=WaitReason.DRIFT)
            return await self._end(JobParked(parked.report), move)
        except Stalled as stalled:
            return await self._hold_stalled(stalled)
        except Uncovered as uncovered:
            self.lose(Fenced(str(uncovered)))
            raise Lost from None
        except Drained:
            return await self._end(JobReleased(why=self._leaving_why), Move(status=Status.PENDING))
        except Interrupted:
            return await self._end(JobReleased(why="interrupted"), Move(status=Status.PENDING))
        except TimedOut:
            return await self._time_out(execution.acts.cut_off)
        except Cancelled:
            return await self._end(JobCancellation(), Move(status=Status.CANCELLED))
        turn = output if isinstance(output, TurnOutput) else None
        completed = JobCompleted(output if turn is None else turn.output)
        return await self._end(completed, Move(status=Status.COMPLETED), turn)

    @contextlib.contextmanager
    def _stop_at_deadline(self, execution: Execution) -> Iterator[None]:
        """Ends the code in the block when the deadline of the job passes."""
        if self._deadline is None:
            yield
            return
        deadline, loop = self._deadline, asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None

        def look() -> None:
            if self._is_too_late():
                execution.stop(TimedOut())
            else:
                start()

        def start() -> None:
            nonlocal timer
            left_us = max(deadline.at - self._clock.wall_us(), 0)
            timer = loop.call_later(left_us / 1_000_000, look, context=UNMARKED)

        start()
        try:
            yield
        finally:
            assert timer is not None
            timer.cancel()

    def _is_too_late(self) -> bool:
        return self._deadline is not None and self._deadline.has_passed(self._clock.wall_us())

    async def _open_outlet(self) -> JobStream:
        """Opens the job's output streams. Knows the attempts of earlier runs, so that a repeated call supersedes its
        earlier output."""
        scribe = StreamWriter(self.config.store.streams) if self.config.scribe is None else self.config.scribe
        attempts: dict[str, int] = {}
        if self._history.claims > 1:
            attempts = await self._ask_store(lambda: self.config.store.streams.attempts(self.grant.job_id))
        return scribe.outlet(self.held, attempts)

    def poke(self) -> None:
        """Reads new mail soon. A run that is ending does not: its last append is rejected while mail is unread, and
        the wake-up may be about that append itself."""
        if self._execution is not None and not self._ending and self._writer.hold_for_mail():
            self._start_reading_mail()

    def wind_down(self, why: str = DRAINED) -> None:
        """Releases the job as soon as the calls in progress have ended; the job may complete before."""
        self._leaving, self._leaving_why = True, why
        if self._execution is not None:
            self._execution.wind_down(Drained())

    def release(self) -> None:
        """Releases the job at once, without waiting for the calls in progress."""
        self._leaving = True
        if self._execution is not None:
            self._execution.stop(Drained())

    def find_uncertain(self) -> list[Recorded]:
        """The calls whose outcome a person has to decide, if the job waits for that."""
        if not isinstance(self.ended_with, JobWaiting) or self.ended_with.reason != WaitReason.RECONCILE:
            return []
        return self._history.find_uncertain()

    @property
    def why_lost(self) -> HoldfastError | None:
        return self._writer.lost

    @property
    def is_delicate(self) -> bool:
        """Whether to stop now would leave a call with an unknown outcome."""
        return self._execution is not None and self._execution.acts.unsafe > 0

    def lose(self, error: Fenced) -> None:
        """The lease is lost: ends the code, and writes nothing more. A run that only has its last event to write lets
        the fence decide: the event may be stored already, and the lease released by it."""
        if not self._ending:
            self._writer.give_up(error)

    # ── ending ────────────────────────────────────────────────────────────────────────────────────

    async def _end(self, event: Event, move: Move, turn: TurnOutput | None = None) -> str:
        """Makes the run's last event durable. Mail that arrives meanwhile is read first, and may change how the run
        ends."""
        self._ending = True
        if self._mailbox.cancelled and not isinstance(event, JobCancellation):
            event, move = JobCancellation(), Move(status=Status.CANCELLED)
        if self._news and isinstance(event, JobWaiting):
            # The mail may be what the job would sleep for: the next run starts with it.
            event, move = JobReleased(why="mail"), Move(status=Status.PENDING)
        if self._outlet is not None:
            await self._outlet.flush()
        try:
            if isinstance(event, JobCompleted) and turn is not None:
                # No await in between: the two events are one append.
                self._writer.record(turn.event, extras=turn.extras, guarded=True)
            self._writer.record(event, move=move, extras=self._make_final_mail(event, move), guarded=True)
            await self._writer.durable()
        except HoldfastError:
            if self._writer.lost is not None or isinstance(event, JobCancellation):
                raise
            if self._mailbox.cancelled or (self._news and isinstance(event, JobWaiting)):
                return await self._end(event, move, turn)  # withdrawn: the mail that was read changes it
            raise
        self.ended_with = event
        self.wakes_at = move.wake_at if move.status is Status.WAITING else move.ready_at or None
        return str(move.status)

    def sleeps_for_us(self) -> int | None:
        """How long from now until the job is due again, if it waits for a time."""
        return None if self.wakes_at is None else self.wakes_at - self._clock.wall_us()

    def _make_final_mail(self, event: Event, move: Move) -> Extras:
        """The mail that a job which has ended sends to others."""
        if not move.over:
            return NOTHING
        return make_final_mail(self.grant.job_id, self._created, self._history.children, event, move.status)

    async def _hold_stalled(self, stalled: Stalled) -> str:
        move = Move(status=Status.WAITING, reason=WaitReason.STALLED)
        ended = await self._end(JobStalled(stalled.report), move)
        if ended == Status.WAITING:  # and not cancelled meanwhile
            self.config.meter.record_stall()
        return ended

    async def _time_out(self, open_calls: Iterable[str]) -> str:
        """Fails the job at its deadline. Calls in progress are cut off as by a cancel, and are not repeated."""
        assert self._deadline is not None
        error = self._deadline.describe_error(self.grant.job_id, open_calls)
        return await self._end(JobFailure(error), Move(status=Status.FAILED))

    async def _record_failure(self, failed: Failed) -> str:
        if self._is_too_late():
            return await self._time_out(() if self._execution is None else self._execution.acts.cut_off)
        error_record = failures.record_error(failed.error)
        attempt = self.grant.attempts + 1
        declared = self.config.retry_for(self.grant.kind)
        policy = self.config.retry if declared is None else declared.policy
        if attempt >= policy.attempts or not (declared or CALL_RETRY).covers_job(failed.error):
            return await self._make_dead_letter(error_record["message"], error_record)
        next_at = self._clock.wall_us() + delay(policy, attempt, self.config.chance())
        ready_at = wake_by(next_at, self._deadline)
        assert ready_at is not None
        move = Move(status=Status.PENDING, ready_at=ready_at, failed=True)
        return await self._end(JobRequeued(why="failed", error=error_record, rerun=failed.rerun), move)

    async def _make_dead_letter(self, why: str, error: Any) -> str:
        causes = (
            {"why": why, "error": error, "takeovers": self.grant.takeovers, "attempts": self.grant.attempts},
        )
        move = Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER, failed=error is not None)
        return await self._end(JobDeadLettered(causes), move)

    # ── mail ──────────────────────────────────────────────────────────────────────────────────────

    def _reserve(self) -> Stamp:
        """Reserves a seq of the current writer: `_fail_unwritable` replaces the writer."""
        return self._writer.reserve()

    def _start_reading_mail(self) -> None:
        self._reading = asyncio.get_running_loop().create_task(self._read_mail(), name="holdfast-mail")

    async def _read_mail(self) -> None:
        """Records unread mail as events, and applies it: wakes waits, stops a cancelled run."""
        letters = await self._load_mail()
        entries = self._mailbox.facts(letters)
        mail_seq = letters[-1].mail_seq if letters else self._writer.mail_seen
        self._news = self._news or bool(
            entries and (self._ending or (self._execution and self._execution.stopping))
        )
        self._writer.mail_read(mail_seq, entries, keep=self._still_holds)
        if self._execution is None:
            return
        for topic in filter(None, map(find_topic, entries)):
            self._execution.waits.ring(topic)
        if self._mailbox.cancelled:
            self._execution.stop(Cancelled())

    async def _load_mail(self) -> list[Mail]:
        """Reads the unread mail."""
        return await self._ask_store(
            lambda: self.config.store.post.read(self.grant.job_id, after=self._writer.mail_seen)
        )

    async def _ask_store(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks the store; while it is unavailable, again after a pause."""
        while True:
            try:
                return await ask()
            except Unavailable:
                await sleep_on_loop(AGAIN_S)

    def _still_holds(self, entry: PendingEvent) -> bool:
        """Whether a pending event is still written after mail was read. After a cancel, no event that fires, waits or
        completes is; after other mail, none that suspends. Outcomes that are known are always written."""
        if self._news and isinstance(entry.event, JobWaiting):
            return False
        if not self._mailbox.cancelled or isinstance(entry.event, JobCancellation):
            return True
        if isinstance(entry.event, ChildStarted):
            self._history.children.pop(
                entry.event.child_job_id, None
            )  # it was never started: no cancel for it
        # Letters of an append go to children, one of whom may be withdrawn here; existing children get the cancel at
        # the end.
        return not entry.guarded and not entry.extras.letters

    def _stop_lost(self, error: HoldfastError) -> None:
        if self._outlet is not None:
            self._outlet.close()
        if self._execution is not None:
            self._execution.stop(Lost(str(error)))


class StoreTime:
    """Store time, measured by this host's ticks since the claim. Times that one run writes are compared by another:
    when to wake up, when no old worker can be sending any more, how old a key is. Host clocks differ; there is one
    store.

    It counts from the reply to the claim, so it is never ahead; it is behind by at most the duration of the claim.
    """

    def __init__(self, clock: Clock, claimed_at: int, tick: int) -> None:
        self._clock = clock
        self._tick_us = clock.tick_us
        self._ahead_us = claimed_at - tick
        """How far store time is ahead of the ticks."""

    def wall_us(self) -> int:
        return self._ahead_us + self._tick_us()

    def tick_us(self) -> int:
        return self._clock.tick_us()

    def boot(self) -> str:
        return self._clock.boot()
