"""Journal in memory: fenced appends and short holds.

Both end in `_write`: first the head and its move, then what belongs to them, in the order calls, timers, children,
letters, turn, accounts. The head goes first so that the rest sees the job as it will be: a letter that an append sends
to its own job wakes it, and a child in the session of a job that has ended finds that the session's turn has already
passed on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from holdfast.errors import Broken, Fenced, HoldfastError, InvalidMove, MailWaiting
from holdfast.model.append import Append, Extras, Move
from holdfast.model.hash_chain import Head, SealedEvent, seal
from holdfast.model.jobs import JobDraft, JobHead, SubmittedJob
from holdfast.model.states import TERMINAL, Slot, Status
from holdfast.store.memory.blobs import keep, keep_large
from holdfast.store.memory.budgets import charge, raise_limits
from holdfast.store.memory.inbox import leave_inbox
from holdfast.store.memory.jobs import promote, put_head, submit
from holdfast.store.memory.leases import is_driven
from holdfast.store.memory.ledger import write_call
from holdfast.store.memory.mailbox import clear_timers, send, set_timers
from holdfast.store.memory.sessions import commit_turn
from holdfast.store.memory.state import MemoryState, MemoryTransaction, find_job
from holdfast.store.ports.journal import Decide, Ruling, check_plain


class MemoryJournal:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def append(self, append: Append) -> Head:
        return self._append(append)

    is_near = False

    def append_now(self, append: Append) -> Head | None:
        return None

    async def append_many(self, appends: Sequence[Append]) -> list[Head | HoldfastError]:
        if len({append.job_id for append in appends}) != len(appends):
            raise InvalidMove("two appends of one job in one batch", hint="Coalesce the appends of a job.")
        outcomes: list[Head | HoldfastError] = []
        for append in appends:
            try:
                outcomes.append(self._append(append))
            except HoldfastError as error:
                outcomes.append(error)
        return outcomes

    async def read(self, job_id: str, *, after: int = 0, limit: int | None = None) -> list[SealedEvent]:
        job = self._state.tables.jobs.get(job_id)
        events = () if job is None else job.events
        return [event for event in events if event.seq > after][:limit]

    async def since_commit(self, job_id: str, *, limit: int | None = None) -> list[SealedEvent]:
        job = self._state.tables.jobs.get(job_id)
        events = [] if job is None else list(job.events)
        commits = [event.seq for event in events if event.type == "checkpoint_saved"]
        if not commits or commits[-1] <= 3:
            return events[:limit]
        return events[:1] + events[commits[-1] - 2 :][:limit]

    async def read_many(self, job_ids: Sequence[str]) -> dict[str, list[SealedEvent]]:
        jobs = self._state.tables.jobs
        return {job_id: list(jobs[job_id].events) for job_id in job_ids if job_id in jobs}

    async def hold(self, job_id: str, decide: Decide) -> Head | None:
        with self._state.transaction() as work:
            return _hold(work, job_id, decide)

    async def hold_expired(self, decide: Decide, *, limit: int = 1000) -> list[tuple[JobHead, Ruling]]:
        done = []
        with self._state.transaction() as work:
            running = [row.head for row in work.tables.jobs.values() if row.head.status is Status.RUNNING]
            expired = [head for head in running if not is_driven(head, work.tick, work.boot)]
            for head in sorted(expired, key=lambda h: (h.lease_expires_at, h.job_id))[: max(limit, 0)]:
                ruling = decide(head)
                if ruling is not None:
                    _apply_ruling(work, head, check_plain(ruling))
                    done.append((head, ruling))
        return done

    async def begin(self, draft: JobDraft, rulings: Sequence[Ruling]) -> SubmittedJob:
        if draft.job_id is None:
            raise InvalidMove("a job that begins with a past needs its id: its past refers to it")
        with self._state.transaction() as work:
            submitted = submit(work, draft)
            for ruling in rulings if submitted.created else ():
                _apply_ruling(work, find_job(work.tables, submitted.job_id).head, ruling)
            return submitted

    def _append(self, append: Append) -> Head:
        with self._state.transaction() as work:
            head = find_job(work.tables, append.job_id).head
            if not _matches(head, append):
                return _explain(head, append)
            advanced = msgspec.structs.replace(head, head_seq=append.head.seq, head_hash=append.head.hash)
            if append.progress:
                advanced = msgspec.structs.replace(advanced, takeovers=0)
            _write(work, _apply_move(advanced, append.move, work.wall), append.events, append.extras)
            return append.head


def _hold(work: MemoryTransaction, job_id: str, decide: Decide) -> Head | None:
    """Write what `decide` returns about a job without a live holder, under the next fence."""
    head = find_job(work.tables, job_id).head
    if head.status in TERMINAL or is_driven(head, work.tick, work.boot):
        return None
    ruling = decide(head)
    return None if ruling is None else _apply_ruling(work, head, ruling)


def _apply_ruling(work: MemoryTransaction, head: JobHead, ruling: Ruling) -> Head:
    if ruling.move.status is Status.RUNNING:
        raise InvalidMove(f"a short hold cannot leave job {head.job_id} running: no worker would run it")
    fence = head.fence + 1
    events, end = seal(head.job_id, head.head, fence, ruling.times or work.wall, ruling.events)
    advanced = msgspec.structs.replace(head, head_seq=end.seq, head_hash=end.hash, fence=fence)
    _write(work, _apply_move(advanced, ruling.move, work.wall), events, ruling.extras)
    return end


def _matches(head: JobHead, append: Append) -> bool:
    return (
        head.status is Status.RUNNING
        and (head.fence, head.lease_token) == (append.fence, append.lease_token)
        and head.head == append.seen
        and append.mail_seen in (None, head.mail_seq)
    )


def _explain(head: JobHead, append: Append) -> Head:
    """Return the head if this append is already written; otherwise raise the reason of the rejection."""
    if head.head == append.head:
        return append.head
    if (head.fence, head.lease_token) != (append.fence, append.lease_token):
        raise Fenced(f"job {head.job_id} is at fence {head.fence}; this append has {append.fence}")
    if head.status is not Status.RUNNING:
        raise Fenced(f"job {head.job_id} is {head.status}; no worker holds it")
    if head.head != append.seen:
        raise Broken(f"job {head.job_id} ends at event {head.head_seq}; its own holder saw {append.seen.seq}")
    raise MailWaiting(f"job {head.job_id} has mail up to {head.mail_seq}", mail_seq=head.mail_seq)


def _apply_move(head: JobHead, move: Move | None, now: int) -> JobHead:
    """The head after the move; a job that leaves `running` has no lease."""
    if move is None:
        return head
    _check_move(head, move)
    if move.failed:
        head = msgspec.structs.replace(head, attempts=head.attempts + 1)
    if move.takeover:
        head = msgspec.structs.replace(head, takeovers=head.takeovers + 1)
    if move.anew:
        head = msgspec.structs.replace(head, attempts=0, takeovers=0)
    head = msgspec.structs.replace(
        head,
        status=move.status,
        wait_reason=None,
        wake_at=None,
        lease_token="",
        lease_owner="",
        lease_boot="",
        lease_expires_at=0,
    )
    if move.status is Status.PENDING:
        return msgspec.structs.replace(head, ready_at=move.ready_at or now)
    if move.status is Status.WAITING:
        return msgspec.structs.replace(head, wait_reason=move.reason, wake_at=move.wake_at)
    return msgspec.structs.replace(head, session_slot=None)


def _check_move(head: JobHead, move: Move) -> None:
    """Raise InvalidMove unless the move leaves `running`. A waiting job needs a reason; only a waiting job has a reason
    or a due time."""
    waits = move.status is Status.WAITING
    fits = (move.reason is not None) == waits and (waits or move.wake_at is None)
    if move.status is Status.RUNNING or not fits:
        raise InvalidMove(
            f"job {head.job_id} cannot become {move.status} for {move.reason}, due at {move.wake_at}"
        )


def _write(work: MemoryTransaction, head: JobHead, events: tuple[SealedEvent, ...], extras: Extras) -> None:
    row = work.tables.jobs[head.job_id]
    ended = head.status in TERMINAL
    if ended:
        work.hint(f"job:{head.job_id}")
    for event in events:
        keep_large(work, head.namespace, event.body)
    work.tables.jobs[head.job_id] = dataclasses.replace(row, events=row.events + events)
    put_head(work, head)
    if ended and head.session_id is not None and head.status is not Status.COMPLETED:
        leave_inbox(work, head.namespace, head.session_id, head.job_id)
    if ended and row.head.session_slot is Slot.LIVE and head.session_id is not None:
        promote(work, head.namespace, head.session_id)
    for body in extras.blobs:
        keep(work, head.namespace, body)
    for call in extras.calls:
        write_call(work, head.job_id, call)
    set_timers(work, head.job_id, extras.timers)
    for child in extras.children:
        if child.job_id is None:
            raise InvalidMove("a child needs its id: its parent's journal refers to it")
        submit(work, child)
    for letter in extras.letters:
        send(work, letter)
    if extras.turn is not None:
        commit_turn(work, head.namespace, extras.turn)
    for part in extras.spend:
        charge(work, part)
    for change in extras.raises:
        raise_limits(work, change)
    if ended:  # after the extras: a job that has ended has no timers, also if its last append sets one
        clear_timers(work, head.job_id)
