"""Journal over SQL: the fenced append, its batch form, and the short hold.

One append is one conditional UPDATE of the job's head and, if it changed the row, the rows that belong to it. The
condition contains everything that the writer has seen (fence, token, head, mail), so a writer that is wrong about any
of it changes nothing. Only then is the head read, to find the *reason*; that read decides nothing.

Appends that move a head and write events, and nothing else, go as a batch first (see `bulk_append`). An append that the
batch did not write is sent again alone: this either finds the reason of the rejection, or does what a batch cannot
(a blob, a ledger row, a turn, the next job of a session).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import starmap
from operator import attrgetter
from typing import Final

from holdfast.errors import Broken, Fenced, HoldfastError, InvalidMove, MailWaiting, Misuse
from holdfast.model import lease
from holdfast.model.append import Append, Extras, Move, Timer
from holdfast.model.events import CheckpointSaved
from holdfast.model.hash_chain import Head, SealedEvent, seal
from holdfast.model.jobs import JobDraft, JobHead, SubmittedJob, check_draft
from holdfast.model.limits import PAYLOAD_INLINE_BYTES
from holdfast.model.states import TERMINAL, Status
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.ports.journal import Decide, Ruling
from holdfast.store.tables.budgets import charge_in, raise_in
from holdfast.store.tables.bulk_append import (
    BatchRejected,
    append_at_once,
    append_plain_in,
    build_conditions,
    build_event_values,
    is_plain,
)
from holdfast.store.tables.job_heads import QueuePosition, build_move_values, lock_head, settle_move
from holdfast.store.tables.jobs import submit_in
from holdfast.store.tables.lease_sweep import SweptJob, hold_expired_in
from holdfast.store.tables.ledger import write_call
from holdfast.store.tables.mailbox import send_in
from holdfast.store.tables.payloads import put_blob_in, store_body
from holdfast.store.tables.turns import commit_in

ALL_OF_THEM = 2**62

NEAR: Final = 16
"""Up to this many events are read on the event loop, without a change of thread."""


class SqlJournal:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def append(self, append: Append) -> Head:
        (outcome,) = await self._append([append], gathered=False)
        if isinstance(outcome, HoldfastError):
            raise outcome
        return outcome

    @property
    def is_near(self) -> bool:
        return not self._executor.batches

    def append_now(self, append: Append) -> Head | None:
        if not is_plain(append):
            return None
        try:
            rows = self._executor.write_now(functools.partial(append_plain_in, appends=[append]))
        except (BatchRejected, Misuse):
            return None
        if not rows:
            return None
        self._send_wakeups(rows)
        return append.head

    async def append_many(self, appends: Sequence[Append]) -> list[Head | HoldfastError]:
        _must_be_of_different_jobs(appends)
        return await self._append(appends, gathered=True)

    async def _append(self, appends: Sequence[Append], *, gathered: bool) -> list[Head | HoldfastError]:
        moved = await self._append_plain(appends, gathered=gathered)
        remaining = [append for append in appends if append.job_id not in moved]
        works = [functools.partial(append_in, append=append) for append in remaining]
        outcomes = iter(await self._executor.write_each(works) if works else [])
        return [append.head if append.job_id in moved else next(outcomes) for append in appends]

    async def _append_plain(self, appends: Sequence[Append], *, gathered: bool) -> frozenset[str]:
        """Write the plain appends in one commit; returns the jobs whose append was written."""
        plain = [append for append in appends if is_plain(append)]
        if not plain:
            return frozenset()
        try:
            if self._executor.batches:
                rows = await append_at_once(self._executor, plain)
            else:
                work = functools.partial(append_plain_in, appends=plain)
                rows = await self._executor.write(work, gathered=gathered)
        except (BatchRejected, Misuse):
            # A batch with a row that the database rejects has written nothing; written one by one, only that append
            # fails.
            return frozenset()
        self._send_wakeups(rows)
        return frozenset(row[0] for row in rows)

    def _send_wakeups(self, rows: Sequence[Row]) -> None:
        """Send wake-ups for the jobs that have moved."""
        moves = [row for row in rows if len(row) > 1]
        if not moves:
            return
        ended = (f"job:{job_id}" for job_id, _, _, over in moves if over)
        ready = (f"queue:{queue}" for _, queue, status, _ in moves if status == Status.PENDING)
        self._executor.send_wakeups([*ended, *ready])

    async def read(self, job_id: str, *, after: int = 0, limit: int | None = None) -> list[SealedEvent]:
        work = functools.partial(read_in, job_id=job_id, after=after, limit=limit)
        return await self._executor.read(work, brief=limit is not None and limit <= NEAR)

    async def since_commit(self, job_id: str, *, limit: int | None = None) -> list[SealedEvent]:
        ends = await self._executor.read(functools.partial(_read_ends, job_id=job_id), brief=True)
        for place in range(len(ends) - 1, 1, -1):
            if ends[place].type == CheckpointSaved.type:
                return [ends[0], *ends[place - 1 :][:limit]]

        async def work(tx: Transaction) -> list[SealedEvent]:
            commit = await tx.row("find_last_commit", job_id=job_id)
            after = 0 if commit is None else max(0, commit[0] - 2)
            return (ends[:1] if after else []) + await read_in(tx, job_id, after=after, limit=limit)

        return await self._executor.read(work)

    async def read_many(self, job_ids: Sequence[str]) -> dict[str, list[SealedEvent]]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("load_journals", job_ids=list(job_ids))

        found: dict[str, list[SealedEvent]] = {}
        for job_id, *columns in await self._executor.read(work, brief=True):
            found.setdefault(job_id, []).append(SealedEvent(*columns))
        return found

    async def hold(self, job_id: str, decide: Decide) -> Head | None:
        tried: list[Head] = []

        async def work(tx: Transaction) -> Head | None:
            return await hold_in(tx, job_id, decide, tried)

        return await self._executor.write(work)

    async def hold_expired(self, decide: Decide, *, limit: int = 1000) -> list[tuple[JobHead, Ruling]]:
        tried: list[list[SweptJob]] = []

        async def work(tx: Transaction) -> list[SweptJob]:
            return await hold_expired_in(tx, decide, limit, tried)

        return [(swept.head, swept.ruling) for swept in await self._executor.write(work)]

    async def begin(self, draft: JobDraft, rulings: Sequence[Ruling]) -> SubmittedJob:
        checked = _assign_id(draft)

        async def work(tx: Transaction) -> SubmittedJob:
            submitted = await submit_in(tx, checked)
            for ruling in rulings if submitted.created else ():
                await hold_in(tx, submitted.job_id, functools.partial(_return_ruling, ruling), [])
            return submitted

        return await self._executor.write(work)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


async def read_in(
    tx: Transaction, job_id: str, *, after: int = 0, limit: int | None = None
) -> list[SealedEvent]:
    """The events after seq `after`, in order."""
    most = ALL_OF_THEM if limit is None else limit
    return _sort_events(await tx.rows("load_journal", job_id=job_id, after=after, limit=most))


async def _read_ends(tx: Transaction, job_id: str) -> list[SealedEvent]:
    """The first event and the last ones, in order: the last checkpoint is often among them."""
    return _sort_events(await tx.rows("load_journal_ends", job_id=job_id, last=NEAR))


def _sort_events(rows: Sequence[Row]) -> list[SealedEvent]:
    """Sort the events by seq. Sorting rows that are in order is one pass."""
    return sorted(starmap(SealedEvent, rows), key=attrgetter("seq"))


# ── one append ────────────────────────────────────────────────────────────────────────────────────


async def append_in(tx: Transaction, append: Append) -> Head:
    """Write everything in the append within this transaction, or raise the reason of the rejection."""
    values = build_conditions(append)
    if append.move is not None and append.move.over:
        await tx.row("lock_session_of_job", job_id=append.job_id)
    if append.extras.letters:
        # Letters move other heads, too: all heads are locked now, in the order that every transaction uses.
        others = {letter.job_id for letter in append.extras.letters}
        await tx.rows("lock_heads", job_ids=sorted(others | {append.job_id}))
    place = None
    if append.move is None:
        moved = await tx.change_each("advance_head", [values]) == 1
    else:
        place = await tx.row("release_head", **values, **build_move_values(append.move), in_no_line=0)
        moved = place is not None
    if not moved:
        return await _explain(tx, append)
    await _write_events(tx, append.namespace, append.job_id, append.events)
    if append.move is not None and place is not None:
        await settle_move(tx, QueuePosition(*place), append.move)
    if append.extras:
        ended = append.move is not None and append.move.over
        await _write_extras(tx, append.namespace, append.job_id, append.extras, ended=ended)
    return append.head


async def _explain(tx: Transaction, append: Append) -> Head:
    """Return the head if this append is already written; otherwise raise the reason of the rejection."""
    head = await lock_head(tx, append.job_id)
    if head.head == append.head:
        return append.head
    if (head.fence, head.lease_token, head.status) != (append.fence, append.lease_token, Status.RUNNING):
        msg = f"job {append.job_id} is {head.status} under fence {head.fence}; this append carries {append.fence}"
        raise Fenced(msg)
    if head.head != append.seen:
        msg = f"job {append.job_id} stands at event {head.head_seq}, its holder has seen {append.seen.seq}"
        raise Broken(
            msg, hint="This process lost track of its own writes. Stop it; another worker continues the job."
        )
    msg = f"job {append.job_id} has mail up to {head.mail_seq}; its holder has read {append.mail_seen}"
    raise MailWaiting(msg, mail_seq=head.mail_seq)


async def _write_events(tx: Transaction, namespace: str, job_id: str, events: Sequence[SealedEvent]) -> None:
    for event in events:
        body = event.body
        if body is not None and len(body) > PAYLOAD_INLINE_BYTES:
            body = (await store_body(tx, namespace, body, event.body_digest)).inline
        await tx.run("insert_event", **build_event_values(job_id, event) | {"body": body})


async def _write_extras(tx: Transaction, namespace: str, job_id: str, extras: Extras, *, ended: bool) -> None:
    """Write what belongs to the events. It sees the job as the move leaves it: a job that has ended has passed on the
    turn of its session, and keeps no timer."""
    for body in extras.blobs:
        await put_blob_in(tx, namespace, body)
    for call in extras.calls:
        await write_call(tx, job_id, call)
    for timer in () if ended else extras.timers:
        await _write_timer(tx, job_id, timer)
    for child in extras.children:
        await submit_in(tx, _assign_id(child))
    for letter in extras.letters:
        await send_in(tx, letter)
    if extras.turn is not None:
        await commit_in(tx, extras.turn, namespace=namespace, handle=None, job_id=job_id)
    # Last, because a whole tree of jobs shares these rows: they are locked as briefly as possible.
    await charge_in(tx, extras.spend)
    await raise_in(tx, extras.raises)


def _assign_id(draft: JobDraft) -> JobDraft:
    if draft.job_id is None:
        msg = "a child or a fork needs its id before what refers to it is built"
        raise InvalidMove(msg, hint="Set `job_id` on the draft.")
    return check_draft(draft)


async def _write_timer(tx: Transaction, job_id: str, timer: Timer) -> None:
    if timer.due_at is None:
        await tx.run("remove_timer", job_id=job_id, step_key=timer.step_key)
    else:
        await tx.run("set_timer", job_id=job_id, step_key=timer.step_key, due_at=timer.due_at)


# ── many appends ──────────────────────────────────────────────────────────────────────────────────


def _must_be_of_different_jobs(appends: Sequence[Append]) -> None:
    if len({append.job_id for append in appends}) != len(appends):
        msg = "two appends of one job in one batch"
        raise InvalidMove(msg, hint="Coalesce the appends of a job before sending them.")


# ── the short hold ────────────────────────────────────────────────────────────────────────────────


async def hold_in(tx: Transaction, job_id: str, decide: Decide, tried: list[Head]) -> Head | None:
    """Write what `decide` returns about a job without a live holder, within this transaction.

    A hold has no id of its own. So `tried` collects the heads that earlier tries led to: if one of them is in the
    journal, that try was committed and its reply was lost.
    """
    await tx.row("lock_session_of_job", job_id=job_id)
    head = await lock_head(tx, job_id)
    for earlier in tried:
        if await tx.row("has_event", job_id=job_id, seq=earlier.seq, hash=earlier.hash) is not None:
            return earlier
    clock = await tx.row("read_lease_clock")
    assert clock is not None
    if head.status in TERMINAL or lease.is_live(
        head.status, head.lease_expires_at, head.lease_boot, tick=clock[0], this_boot=clock[1]
    ):
        return None
    ruling = decide(head)
    if ruling is None:
        return None
    if ruling.move.status is Status.RUNNING:
        msg = "a short hold gives the job back; it cannot leave it running"
        raise InvalidMove(msg, hint="Claim the job to drive it.")
    wall = await tx.row("read_wall_clock")
    assert wall is not None
    sealed, new_head = seal(job_id, head.head, head.fence + 1, ruling.times or wall[0], ruling.events)
    await _write_hold(tx, head, new_head, sealed, ruling.move, ruling.extras)
    tried.append(new_head)
    return new_head


def _return_ruling(ruling: Ruling, _head: JobHead) -> Ruling:
    return ruling


async def _write_hold(
    tx: Transaction, head: JobHead, new_head: Head, sealed: Sequence[SealedEvent], move: Move, extras: Extras
) -> None:
    await tx.run(
        "write_ruling",
        job_id=head.job_id,
        head_seq=new_head.seq,
        head_hash=new_head.hash,
        fence=head.fence + 1,
        **build_move_values(move),
    )
    await _write_events(tx, head.namespace, head.job_id, sealed)
    if not _keeps_place(head, move):
        place = QueuePosition(head.job_id, head.namespace, head.queue, head.session_id, head.session_slot)
        await settle_move(tx, place, move)
    if extras:
        await _write_extras(tx, head.namespace, head.job_id, extras, ended=move.over)


def _keeps_place(head: JobHead, move: Move) -> bool:
    """Whether a pending job keeps its place in the queue, so that it needs no wake-up."""
    pending = head.status is Status.PENDING and move.status is Status.PENDING
    return pending and move.ready_at == head.ready_at
