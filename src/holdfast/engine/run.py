"""A claimed job, driven until it ends, sleeps, or is somebody else's.

    read the journal → read the mail → run the function → write how it went

Whatever happens to this process in between, the journal says where the job stands, and the next claim starts here
again.
How a run can end, and what is written for it:

    it returned          job_completed
    it raised            job_requeued, and after too many tries job_dead_lettered; held for a person, with the causes
    all tasks sleep      job_waiting; nobody holds the job until it is time
    it was cancelled     cancel_requested, job_cancelled
    code does not fit    job_parked, with a report
    the lease was lost   nothing: it is not ours to write any more
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec

from holdfast.engine import failures
from holdfast.engine.committer import Committer
from holdfast.engine.drive import Drive
from holdfast.engine.effects import Owner
from holdfast.engine.endings import Asleep, Failed, Parked, Uncovered
from holdfast.engine.pen import Entry, Pen
from holdfast.engine.points import Points, nothing
from holdfast.engine.rest import rest
from holdfast.errors import Broken, Fenced, HoldfastError, InvalidSetting, Unavailable
from holdfast.model import fold, lease
from holdfast.model.append import Holder, Move
from holdfast.model.chain import EMPTY, Head, first_break, unseal
from holdfast.model.effects import DECIDED, CallStatus
from holdfast.model.events import (
    CancelRequested,
    Event,
    JobCancelled,
    JobCompleted,
    JobCreated,
    JobDeadLettered,
    JobParked,
    JobReleased,
    JobRequeued,
    JobWaiting,
    SignalReceived,
    ToolReconciled,
)
from holdfast.model.history import History, Recorded
from holdfast.model.lease import Grant
from holdfast.model.ledger import CallRow, call_id, idempotency_key
from holdfast.model.mail import Mail
from holdfast.model.retry import RetryPolicy, delay
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.store.clock import Clock
from holdfast.store.contract import Store
from holdfast.store.ports.leases import Held

Program = Callable[[Drive, Any], Coroutine[Any, Any, Any]]
"""A kind's code: it gets its run and the job's input."""

AGAIN_S: Final = 0.2
CHANCE: Final = 0.5
"""Where in its span a retry falls; the workers' own jitter spreads them."""


class Desk(msgspec.Struct, frozen=True):
    """What a run needs from outside."""

    store: Store
    committer: Committer
    clock: Clock
    programs: Mapping[str, Program]
    retry: RetryPolicy = RetryPolicy(attempts=lease.FAILED_ATTEMPTS_MAX)
    takeovers_max: int = lease.TAKEOVERS_MAX
    strict: bool = False
    points: Points = nothing


class StoreTime:
    """The store's time, kept by this host's ticks since the claim. What one run writes down another compares: when to
    wake up, when nobody can be sending any more, how old a key is. Hosts differ about the time; there is one store.

    It counts from when the claim was answered, so it is never ahead; it is behind by at most as long as the claim took.
    """

    def __init__(self, clock: Clock, claimed_at: int, tick: int) -> None:
        self._clock = clock
        self._claimed_at = claimed_at
        self._tick = tick

    def wall_us(self) -> int:
        return self._claimed_at + self._clock.tick_us() - self._tick

    def tick_us(self) -> int:
        return self._clock.tick_us()

    def boot(self) -> str:
        return self._clock.boot()


class Word(msgspec.Struct, frozen=True):
    """What a person says about an uncertain call."""

    step_key: str
    decision: str
    why: str
    generation: int = 0
    result: Any = None


class Cancelled(Exception):
    """Somebody asked for the job's end."""


class Drained(Exception):
    """The worker stops, and gives the job back."""


class Lost(Exception):
    """The job is not ours any more."""


class JobRun:
    """One claim of one job."""

    def __init__(
        self,
        desk: Desk,
        grant: Grant,
        *,
        covers: Callable[[str], bool] = lambda _job_id: True,
        asked_at: int | None = None,
    ) -> None:
        self.desk = desk
        self.grant = grant
        self.held = Held(grant.job_id, grant.fence, grant.lease_token)
        self._covers = covers
        self._pen = self._open()
        self._clock: Clock = desk.clock
        self._granted_tick = desk.clock.tick_us()
        self._asked_tick = self._granted_tick if asked_at is None else asked_at
        self._drive: Drive | None = None
        self._reading: asyncio.Task[None] | None = None
        self._cancelled = False
        self._ending = False
        self._news = False

    async def go(self) -> str:
        """How it ended: a status, or `lost`. Nothing of the run is left behind."""
        try:
            job, history, given = await self._load()
            self._history = history
            self._pen.mail_seen = job.mail_seq
            return await self._go(job, history, given)
        except (Lost, HoldfastError):
            if self._pen.lost is None:
                raise
            return "lost"
        finally:
            if self._reading is not None:
                self._reading.cancel()

    def _open(self) -> Pen:
        return Pen(
            Holder(
                self.grant.job_id,
                self.grant.namespace,
                self.grant.fence,
                self.grant.lease_token,
                Head(self.grant.head_seq, self.grant.head_hash),
            ),
            mail_seen=0,
            clock=self.desk.clock,
            courier=self.desk.committer,
            on_mail=self._mail_waits,
            on_loss=self._lost,
        )

    async def _go(self, job: fold.Job, history: History, given: Any) -> str:
        if self.grant.mail_seq > job.mail_seq:
            await self._read_mail()
        if self._cancelled or job.cancel_requested:
            return await self._end(JobCancelled(), Move(status=Status.CANCELLED))
        if lease.is_poison(
            takeovers=self.grant.takeovers,
            failed_attempts=self.grant.attempts,
            takeovers_max=self.desk.takeovers_max,
            failed_attempts_max=self.desk.retry.attempts,
        ):
            return await self._dead("its workers died or it failed too often", None)
        return await self._drive_on(history, given)

    async def _load(self) -> tuple[fold.Job, History, Any]:
        """What the journal says; it must be whole, and end where the claim left it."""
        grant = self.grant
        sealed = await self.desk.store.journal.read(grant.job_id)
        if len(sealed) > grant.head_seq and sealed[-1].fence > grant.fence:
            # It took us so long to come here that the lease was over, and somebody else has the job.
            self.lose(Fenced(f"job {grant.job_id} was taken over before it was read"))
            raise Lost
        head = Head(sealed[-1].seq, sealed[-1].hash) if sealed else EMPTY
        if head != Head(grant.head_seq, grant.head_hash) or first_break(grant.job_id, sealed) is not None:
            msg = f"the journal of job {grant.job_id} does not lead to its head"
            raise Broken(msg)
        self._clock = StoreTime(self.desk.clock, sealed[-1].at, self._granted_tick)
        job, history, given = fold.Job(), History(), None
        for one in sealed:
            event = unseal(one)
            fold.step(job, one.seq, one.fence, event)
            history.take(one.seq, event)
            if isinstance(event, JobCreated):
                given = event.input
        return job, history, given

    async def _drive_on(self, history: History, given: Any) -> str:
        program = self.desk.programs.get(self.grant.kind)
        if program is None:
            msg = f"no code for jobs of kind {self.grant.kind!r} here"
            raise InvalidSetting(msg, hint="Claim only kinds that this process has code for.")
        drive = self._drive = Drive(
            history,
            self._pen,
            self._clock,
            Owner(self.grant.namespace, self.grant.job_id, self.grant.fence),
            strict=self.desk.strict,
            points=self.desk.points,
            covered=lambda: self._covers(self.grant.job_id),
            host_clock=self.desk.clock,
            unsure_us=self._granted_tick - self._asked_tick,
        )
        if self._pen.lost is not None:
            raise self._pen.lost
        try:
            output = await drive.run(lambda: program(drive, given))
        except Failed as failed:
            return await self._failed(failed)
        except Asleep as asleep:
            move = Move(status=Status.WAITING, reason=asleep.reason, wake_at=asleep.wake_at)
            fact = JobWaiting(asleep.reason, asleep.wake_at, self._pen.mail_seen)
            return await self._end(fact, move)
        except Parked as parked:
            move = Move(status=Status.WAITING, reason=WaitReason.DRIFT)
            return await self._end(JobParked(parked.report), move)
        except Uncovered as uncovered:
            self.lose(Fenced(str(uncovered)))
            raise Lost from None
        except Drained:
            return await self._end(JobReleased(), Move(status=Status.PENDING))
        except Cancelled:
            return await self._end(JobCancelled(), Move(status=Status.CANCELLED))
        return await self._end(JobCompleted(output), Move(status=Status.COMPLETED))

    def poke(self) -> None:
        """There may be mail: it is read soon."""
        if self._drive is not None and self._pen.hold_for_mail():
            self._mail_waits()

    def release(self) -> None:
        """The job is given back where it stands."""
        if self._drive is not None:
            self._drive.stop(Drained())

    def lose(self, error: Fenced) -> None:
        """The lease is somebody else's: nothing more is written, and the code is ended."""
        self._pen.give_up(error)

    # ── ends ──────────────────────────────────────────────────────────────────────────────────────

    async def _end(self, fact: Event, move: Move) -> str:
        """The run's last fact is durable. Mail that came meanwhile is read first, and may change the end."""
        self._ending = True
        if self._cancelled and not isinstance(fact, JobCancelled):
            fact, move = JobCancelled(), Move(status=Status.CANCELLED)
        try:
            self._pen.record(fact, move=move, guarded=True)
            await self._pen.durable()
        except HoldfastError:
            if self._cancelled and self._pen.lost is None and not isinstance(fact, JobCancelled):
                return await self._end(JobCancelled(), Move(status=Status.CANCELLED))
            if self._news and self._pen.lost is None and isinstance(fact, JobWaiting):
                # What it would have slept for may be what the letter says: the next run starts with it.
                return await self._end(JobReleased(why="mail"), Move(status=Status.PENDING))
            raise
        return str(move.status)

    async def _failed(self, failed: Failed) -> str:
        told = failures.told(failed.error)
        attempt = self.grant.attempts + 1
        if attempt >= self.desk.retry.attempts:
            return await self._dead(told["message"], told)
        wait_us = delay(self.desk.retry, attempt, CHANCE)
        move = Move(status=Status.PENDING, ready_at=self._clock.wall_us() + wait_us, failed=True)
        return await self._end(JobRequeued(why="failed", error=told, rerun=failed.rerun), move)

    async def _dead(self, why: str, error: Any) -> str:
        causes = (
            {"why": why, "error": error, "takeovers": self.grant.takeovers, "attempts": self.grant.attempts},
        )
        move = Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER, failed=error is not None)
        return await self._end(JobDeadLettered(causes), move)

    # ── mail ──────────────────────────────────────────────────────────────────────────────────────

    def _mail_waits(self) -> None:
        self._reading = asyncio.get_running_loop().create_task(self._read_mail(), name="holdfast-mail")

    async def _read_mail(self) -> None:
        """Every letter is a fact of the journal now, and has been acted upon."""
        letters = await self._letters()
        facts = [fact for letter in letters if (fact := self._fact(letter)) is not None]
        seen = letters[-1].mail_seq if letters else self._pen.mail_seen
        self._news = self._ending and bool(facts)
        self._pen.mail_read(seen, facts, keep=self._still_holds)
        if self._drive is None:
            return
        for fact in facts:
            if isinstance(fact.event, ToolReconciled):
                self._drive.reconciled(fact.event.step_key)
        if self._cancelled:
            self._drive.stop(Cancelled())

    async def _letters(self) -> list[Mail]:
        """What has not been read yet, as soon as the store can be asked."""
        while True:
            try:
                return await self.desk.store.post.read(self.grant.job_id, after=self._pen.mail_seen)
            except Unavailable:
                await rest(AGAIN_S)

    def _fact(self, letter: Mail) -> Entry | None:
        if letter.kind is MailKind.CANCEL:
            self._cancelled = True
            cancel = CancelRequested(by=letter.sender, why=letter.name, mail_seq=letter.mail_seq)
            return Entry(self._pen.reserve(), cancel)
        if letter.kind is MailKind.SIGNAL:
            signal = SignalReceived(letter.name, letter.mail_seq, letter.body)
            return Entry(self._pen.reserve(), signal)
        if letter.kind is MailKind.RECONCILE:
            return self._reconciled(letter)
        return None

    def _reconciled(self, letter: Mail) -> Entry | None:
        """A person's word on a call that is still uncertain; said about any other it changes nothing."""
        try:
            word = msgspec.convert(letter.body, Word)
        except msgspec.ValidationError:
            return None
        call = self._history.uncertain(word.step_key, word.generation)
        if call is None or word.decision not in DECIDED:
            return None
        event = ToolReconciled(
            word.step_key,
            word.decision,
            by=letter.sender,
            why=word.why,
            generation=word.generation,
            result=word.result,
        )
        order = self._pen.reserve()
        self._history.take(order, event)
        return Entry(order, event, self._row(call))

    def _row(self, call: Recorded) -> CallRow:
        """The ledger row of a call as it is known now."""
        grant = self.grant
        return CallRow(
            tool_call_id=call_id(grant.job_id, call.step_key, call.generation),
            job_id=grant.job_id,
            step_key=call.step_key,
            generation=call.generation,
            tool_name=call.name,
            raw_tool_name=call.name,
            side_effect_class=call.effect,
            status=call.status or CallStatus.PREPARED,
            idempotency_key=idempotency_key(grant.namespace, grant.job_id, call.step_key, call.generation),
            args_digest=call.args_digest,
            attempt=call.attempt,
            fence=grant.fence,
            start_by=call.start_by,
            longest_call_us=call.longest_call_us,
        )

    def _still_holds(self, entry: Entry) -> bool:
        """After a cancel nothing fires, waits or completes any more, and after news nobody goes to sleep; what was
        learnt is still written."""
        if self._news and isinstance(entry.event, JobWaiting):
            return False
        return not (self._cancelled and entry.guarded and not isinstance(entry.event, JobCancelled))

    def _lost(self, error: HoldfastError) -> None:
        if self._drive is not None:
            self._drive.stop(Lost(str(error)))
