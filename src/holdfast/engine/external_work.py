"""External work: work items that an external agent claims, renews and completes over the API.

The problem. Such an agent runs no code of this process. It claims, goes away, reports its progress now and then, and
at the end the result; or it dies, and reports nothing. Its machine, its clock and its honesty are its own.

The method. A work item is a job, and the agent that claims it holds a lease and a fence like any worker. This process
writes each request of the agent, as one append under the agent's fence. So the database, and not either of them,
decides between two agents that both believe to hold one item: the item has one holder, and only the holder's
completion counts.

    claim ──► renew, progress ──► complete                     completed
                              ──► fail, recoverable            pending again after a while; then a dead letter
                              ──► fail, not recoverable        failed
                              ──► release                      pending at once
          ──► (silence)                                        claimable again when its lease has expired

What could go wrong, and why it does not:

- A reply is lost, and the agent repeats the request: the job's last event is that very request, under that very fence.
  The reply is the same, and nothing is written.
- The agent was slow, and another agent holds the item now: its fence is the older one. The request is rejected.
- A client cancels: the item ends at once, under the holder's own fence; the holder learns it with its next request.
- No agent can finish it: every loss of a holder and every failure is counted, and the item is held as a dead letter
  with all of their causes.
- Two requests of one holder arrive together: one of them finds another head than it was built on, and is built again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from holdfast.engine.children import make_final_mail
from holdfast.engine.durable_call import encode_result
from holdfast.engine.journal_reader import load_job
from holdfast.engine.journal_writer import Stamp
from holdfast.engine.mailbox import MailboxReader
from holdfast.engine.recovery import causes_of
from holdfast.errors import Broken, Fenced, InvalidPayload, MailWaiting, NotFound, Unavailable
from holdfast.model import lease
from holdfast.model.append import NOTHING, Holder, Move, append_of
from holdfast.model.events import (
    CancelRequested,
    Event,
    JobCancellation,
    JobCompleted,
    JobCreated,
    JobDeadLettered,
    JobFailure,
    JobReleased,
    JobRequeued,
    ProgressReported,
)
from holdfast.model.hash_chain import SealedEvent, unseal_all
from holdfast.model.jobs import JobHead
from holdfast.model.lease import Grant
from holdfast.model.limits import NAME_LENGTH_MAX
from holdfast.model.redaction import redact
from holdfast.model.replay_history import History
from holdfast.model.retry import Backoff, delay
from holdfast.model.states import TERMINAL, MailKind, Status, WaitReason
from holdfast.model.time import from_iso
from holdfast.model.work import Work, agent_in
from holdfast.store.clock import Clock
from holdfast.store.contract import Store
from holdfast.store.ports.journal import Ruling
from holdfast.store.ports.leases import ClaimRequest, HeldLease

TRIES: Final = 20
NOTE_MAX: Final = 2_000
DEFAULT: Final = Backoff()


Said = tuple[tuple[Event, ...], Move | None]
"""What a request amounts to: events, and the move that they make of the job."""


class ExternalWork:
    """The requests of external agents about work items. `chance` spreads the retries of failed items."""

    def __init__(
        self, store: Store, clock: Clock, chance: Callable[[], float], retry: Backoff = DEFAULT
    ) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._retry = retry

    # ── claiming ──────────────────────────────────────────────────────────────────────────────────

    async def claim(self, ask: ClaimRequest) -> list[tuple[Grant, WorkItemState]]:
        """Claims items for an agent. Items that no agent should do any more (cancelled, too late, failed too often)
        are ended instead, and are not returned."""
        granted = await self._store.leases.claim(ask)
        if not granted:
            return []
        unread = [grant.job_id for grant in granted if not grant.journal]
        journals = await self._store.journal.read_many(unread) if unread else {}
        items = [
            (grant, work_of_grant(grant, ask.worker, grant.journal or journals[grant.job_id]))
            for grant in granted
        ]
        return [(grant, item) for grant, item in items if await self._fits(grant, item)]

    async def _fits(self, grant: Grant, item: WorkItemState) -> bool:
        """Whether the item is to be done. If another agent has taken it over meanwhile, that agent decides: nothing is
        written under an old fence."""
        held = HeldLease(grant.job_id, grant.fence, grant.lease_token)
        try:
            if await self._read_mail(item, held):
                return False
            deadline = deadline_of(item)
            if deadline is not None and self._now(item) >= deadline:
                await self._write(held, item, expire_item())
                return False
            if self._is_poison(item.head):
                await self._write(held, item, (make_dead_letter(item, None), HELD_DEAD))
                return False
        except (Broken, Fenced, MailWaiting):
            return False
        return True

    def _is_poison(self, head: JobHead, failed: int = 0) -> bool:
        return lease.is_poison(
            takeovers=head.takeovers,
            failed_attempts=head.attempts + failed,
            takeovers_max=lease.TAKEOVERS_MAX,
            failed_attempts_max=self._retry.attempts,
        )

    # ── renewing ──────────────────────────────────────────────────────────────────────────────────

    async def renew(self, held: HeldLease, ttl_us: int) -> None:
        """Extends the holder's lease by this time from now."""
        item = await self._load_held(held)
        if await self._read_mail(item, held):
            raise find_rejection(await self.load(held.job_id))
        if held.job_id not in await self._store.leases.renew([held], ttl_us):
            raise find_rejection(await self.load(held.job_id))

    async def progress(self, held: HeldLease, progress: int, note: str, ttl_us: int) -> None:
        """Records the progress, for every reader of the item, and extends the holder's lease by this time from now."""
        if not 0 <= progress <= 100:
            raise InvalidPayload(f"progress is {progress}; it is a percentage, 0 to 100")
        if len(note) > NOTE_MAX:
            raise InvalidPayload(f"a note of {len(note):,} characters; allowed are {NOTE_MAX:,}")
        event = ProgressReported(progress, redact(note))
        await self._write_request(held, lambda _: ((event,), None), repeats=lambda _: False)
        if held.job_id not in await self._store.leases.renew([held], ttl_us):
            raise find_rejection(await self.load(held.job_id))

    # ── ending ────────────────────────────────────────────────────────────────────────────────────

    async def complete(self, held: HeldLease, result: Any) -> WorkItemState:
        """Completes the item, once."""
        encode_result(result)
        event = JobCompleted(result)
        completed: Said = ((event,), Move(status=Status.COMPLETED))
        return await self._write_request(
            held, lambda _: completed, repeats=lambda last: isinstance(last, JobCompleted)
        )

    async def fail(self, held: HeldLease, error: dict[str, Any], *, recoverable: bool) -> WorkItemState:
        """Fails this attempt; another follows, or the item is a dead letter, or it has failed for good."""
        redacted = {name: redact(value) if isinstance(value, str) else value for name, value in error.items()}

        def failed(item: WorkItemState) -> Said:
            if not recoverable:
                return (JobFailure(redacted),), Move(status=Status.FAILED)
            if self._is_poison(item.head, failed=1):
                return make_dead_letter(item, redacted), msgspec.structs.replace(HELD_DEAD, failed=True)
            wait_us = delay(self._retry, item.head.attempts + 1, self._chance())
            back = Move(status=Status.PENDING, ready_at=self._now(item) + wait_us, failed=True)
            return (JobRequeued(why="failed", by=item.head.lease_owner, error=redacted),), back

        return await self._write_request(
            held, failed, repeats=lambda last: isinstance(last, JobRequeued | JobFailure | JobDeadLettered)
        )

    async def release(self, held: HeldLease, why: str) -> WorkItemState:
        """Releases the item as it was; it counts as no failure."""
        back: Said = ((JobReleased(redact(why)[:NAME_LENGTH_MAX]),), Move(status=Status.PENDING))
        return await self._write_request(
            held, lambda _: back, repeats=lambda last: isinstance(last, JobReleased)
        )

    async def cancel(self, job_id: str, request: CancelRequested) -> bool:
        """Cancels an item that an external agent holds, under that agent's own fence. False: no external agent holds
        it, and it is cancelled like any job."""
        for _ in range(TRIES):
            item = await self.load(job_id)
            head = item.head
            if head.status is not Status.RUNNING or agent_in(head.lease_owner) is None:
                return False
            held = HeldLease(job_id, head.fence, head.lease_token)
            over: Said = ((request, JobCancellation(request.why)), Move(status=Status.CANCELLED))
            try:
                await self._write(held, item, over)
            except (Fenced, Broken, MailWaiting):
                continue
            return True
        raise make_busy_error(job_id)

    async def tidy(self) -> int:
        """Ends pending items that were cancelled by mail, or that no agent has begun by their deadline. Returns how
        many."""
        ended = 0
        for job_id in await self._store.work.find_unclaimed():
            item = await self.load(job_id)
            ending = await self._find_ending(item)
            if ending is None:
                continue
            events, move = ending
            ruling = Ruling(events, move, make_final_mail(job_id, item.created, (), events[-1], move.status))
            head_seq = item.head.head_seq

            def over(head: JobHead, ruling: Ruling = ruling, head_seq: int = head_seq) -> Ruling | None:
                return ruling if head.status is Status.PENDING and head.head_seq == head_seq else None

            ended += await self._store.journal.hold(job_id, over) is not None
        return ended

    async def _find_ending(self, item: WorkItemState) -> tuple[tuple[Event, ...], Move] | None:
        for letter in await self._store.post.read(item.head.job_id, after=find_newest_letter(item)):
            if letter.kind is MailKind.CANCEL:
                request = CancelRequested(by=letter.sender, why=letter.name, mail_seq=letter.mail_seq)
                return (request, JobCancellation(letter.name)), Move(status=Status.CANCELLED)
        deadline = deadline_of(item)
        return expire_item() if deadline is not None and deadline <= self._now(item) else None

    # ── one request ───────────────────────────────────────────────────────────────────────────────

    async def load(self, job_id: str) -> WorkItemState:
        head, sealed = await load_job(self._store, job_id)
        return WorkItemState(head, tuple(unseal_all(job_id, sealed)))

    async def _load_held(self, held: HeldLease) -> WorkItemState:
        item = await self.load(held.job_id)
        if (item.head.fence, item.head.lease_token, item.head.status) != (
            held.fence,
            held.lease_token,
            Status.RUNNING,
        ):
            raise find_rejection(item)
        return item

    async def _write_request(
        self, held: HeldLease, decide: Callable[[WorkItemState], Said], *, repeats: Callable[[Event], bool]
    ) -> WorkItemState:
        """Writes the request under the holder's fence; returns the item if the same request was written before."""
        for _ in range(TRIES):
            item = await self.load(held.job_id)
            sealed, last = item.last
            if sealed.fence == held.fence and item.head.status is not Status.RUNNING and repeats(last):
                return item
            item = await self._load_held(held)
            if await self._read_mail(item, held):
                raise find_rejection(await self.load(held.job_id))
            try:
                await self._write(held, item, decide(item))
            except (Broken, Fenced, MailWaiting):
                continue  # the next load shows what has changed
            return await self.load(held.job_id)
        raise make_busy_error(held.job_id)

    async def _read_mail(self, item: WorkItemState, held: HeldLease) -> bool:
        """Reads unread mail of the item. True: a cancel or a restart has ended this hold."""
        read_seq = find_newest_letter(item)
        if item.head.mail_seq <= read_seq:
            return False
        history = History()
        for sealed, event in item.facts:
            history.take(sealed.seq, event, sealed.at)
        stamp = Stamp(item.head.head_seq + 1, history.last_at)
        reader = MailboxReader(item.head.namespace, held.job_id, held.fence, history, lambda: stamp)
        letters = [
            letter
            for letter in await self._store.post.read(held.job_id, after=read_seq)
            if letter.kind in {MailKind.CANCEL, MailKind.RESUME}
        ]
        events = tuple(entry.event for entry in reader.facts(letters))
        if reader.cancelled:
            await self._write(held, item, ((*events, JobCancellation()), Move(status=Status.CANCELLED)))
            return True
        if reader.requeued is not None:
            await self._write(held, item, ((reader.requeued,), Move(status=Status.PENDING, anew=True)))
            return True
        return False

    async def _write(self, held: HeldLease, item: WorkItemState, outcome: Said) -> None:
        events, move = outcome
        head = item.head
        ends = move is not None and move.over
        await self._store.journal.append(
            append_of(
                Holder(held.job_id, head.namespace, held.fence, held.lease_token, head.head),
                events,
                at=self._now(item),
                mail_seen=None if move is None else head.mail_seq,
                move=move,
                progress=any(isinstance(event, ProgressReported) for event in events),
                extras=make_final_mail(held.job_id, item.created, (), events[-1], move.status)
                if move is not None and ends
                else NOTHING,
            )
        )

    def _now(self, item: WorkItemState) -> int:
        """Not earlier than the last event: host clocks differ."""
        return max(self._clock.wall_us(), item.last[0].at)


class WorkItemState(msgspec.Struct, frozen=True):
    """State of a work item: its head, and the events of its journal."""

    head: JobHead
    facts: tuple[tuple[SealedEvent, Event], ...]

    @property
    def created(self) -> JobCreated:
        created = self.facts[0][1]
        assert isinstance(created, JobCreated), "a journal begins with the job"
        return created

    @property
    def last(self) -> tuple[SealedEvent, Event]:
        return self.facts[-1]


HELD_DEAD: Final = Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER)


def work_of_grant(grant: Grant, holder: str, sealed: Sequence[SealedEvent]) -> WorkItemState:
    """The item as the grant returned it, without another read."""
    events = tuple(unseal_all(grant.job_id, sealed))
    created = events[0][1]
    assert isinstance(created, JobCreated), "a journal begins with the job"
    head = JobHead(
        job_id=grant.job_id,
        namespace=grant.namespace,
        queue=grant.queue,
        kind=grant.kind,
        priority=created.priority,
        status=Status.RUNNING,
        wait_reason=None,
        wake_at=None,
        ready_at=0,
        session_id=grant.session_id,
        session_slot=None,
        head_seq=grant.head_seq,
        head_hash=grant.head_hash,
        fence=grant.fence,
        lease_token=grant.lease_token,
        lease_owner=holder,
        lease_boot="",
        lease_expires_at=grant.lease_expires_at,
        mail_seq=grant.mail_seq,
        attempts=grant.attempts,
        takeovers=grant.takeovers,
    )
    return WorkItemState(head, events)


def deadline_of(item: WorkItemState) -> int | None:
    deadline = msgspec.convert(item.created.input, Work).deadline
    return None if deadline is None else from_iso(deadline)


def expire_item() -> tuple[tuple[Event, ...], Move]:
    error = {"type": "DeadlinePassed", "message": "it was not started by its deadline"}
    return (JobFailure(error),), Move(status=Status.FAILED)


def make_dead_letter(item: WorkItemState, error: Any) -> tuple[Event, ...]:
    """The event that makes the item a dead letter: all causes since it was last restarted, and this error."""
    causes = causes_of((sealed.at, event) for sealed, event in item.facts)
    if error is not None:
        causes.append({"why": "failed", "holder": item.head.lease_owner, "error": error})
    return (JobDeadLettered(tuple(causes) or ({"why": "its holders were lost too often"},)),)


def find_newest_letter(item: WorkItemState) -> int:
    """The number of the newest message that the journal has an event for."""
    return max((getattr(event, "mail_seq", 0) for _, event in item.facts), default=0)


def find_rejection(item: WorkItemState) -> Fenced:
    """The error that rejects a request of an agent which no longer holds the item."""
    head = item.head
    if head.status in TERMINAL:
        return Fenced(
            f"work {head.job_id} is {head.status}", hint="Stop working on it; this write was not applied."
        )
    return Fenced(
        f"work {head.job_id} is no longer leased to you: it is {head.status}",
        hint="Stop working on it, and claim other work; this write was not applied.",
    )


def make_busy_error(job_id: str) -> Unavailable:
    return Unavailable(f"work {job_id} changes too often to be read consistently", hint="Repeat the request.")


async def need_work(store: Store, job_id: str, namespace: str) -> JobHead:
    """The head of this work item. NotFound, if the job is no work item or belongs to another namespace."""
    head = await store.jobs.head(job_id)
    if head.namespace != namespace or await store.work.find(job_id) is None:
        raise NotFound(f"there is no work {job_id!r}", hint="`holdfast work list` shows what there is.")
    return head
