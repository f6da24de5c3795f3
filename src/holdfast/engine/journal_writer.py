"""Journal writer: queues the events of one job, and hands them to the group commit as appends.

`record` never waits. It gives an event its place and its job time and returns; a caller that must not continue before
the event is on disk waits for `durable`. Events are sealed (numbered, chained) only when the group commit takes them,
all queued ones in one append. So a chain of reads costs no waits, and events that are queued together share a commit.

An append that was sent is kept until its outcome is known, byte for byte: after a lost reply the same bytes are sent
again, and the store recognises them. Four outcomes:

    a head          the events are durable
    MailWaiting     the job has unread mail, and one of the events (it fires, waits or ends) must not be written before
                    it is read. Nothing was written: the events are queued again, and the mailbox reader decides which
                    of them are still written
    Unavailable     the append may be valid: the same append is sent again, a little later
    other errors    the lease is lost, or worse: nothing more is written, and callers that wait get the error
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.errors import HoldfastError, MailWaiting, TooLarge, Unavailable, Withdrawn
from holdfast.model.append import NOTHING, Append, Extras, Holder, Move, append_of
from holdfast.model.events import Event
from holdfast.model.hash_chain import Head
from holdfast.model.ledger import CallRow
from holdfast.model.limits import EVENTS_PER_APPEND_MAX
from holdfast.model.side_effects import SETTLED
from holdfast.store.clock import Clock


class PendingEvent(msgspec.Struct, frozen=True, eq=False):
    """An event that is not written yet, and what its append carries. `guarded`: it must not be written while mail is
    unread."""

    order: int
    event: Event
    row: CallRow | None = None
    extras: Extras = NOTHING
    move: Move | None = None
    guarded: bool = False
    progress: bool = False
    body: bytes | None = None
    at: int = 0


class Committer(Protocol):
    """Takes appends to the store. `group_commit.GroupCommit` implements it."""

    def wake(self, writer: JournalWriter) -> None:
        """This writer has events to send, soon."""
        ...

    def hurry(self, writer: JournalWriter) -> None:
        """A caller waits for the events of this writer."""
        ...


class JournalWriter:
    """Writes the journal of one job while the job is held."""

    def __init__(
        self,
        holder: Holder,
        *,
        mail_seen: int,
        clock: Clock,
        courier: Committer,
        on_mail: Callable[[], None],
        on_loss: Callable[[HoldfastError], None],
        last_at: int = 0,
    ) -> None:
        self.holder = holder
        self.mail_seen = mail_seen
        self.lost: HoldfastError | None = None
        self.clock = clock
        self.last_at = last_at
        """Job time of the last event: no later event is before it."""
        self._courier = courier
        self._on_mail = on_mail
        self._on_loss = on_loss
        self._order = holder.head.seq
        self._entries: deque[PendingEvent] = deque()
        self._sent: Append | None = None
        self._sent_entries: list[PendingEvent] = []
        self._reading = False
        self._mail_hinted = False
        self._durable = holder.head.seq
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()

    def resume(self, clock: Clock, last_at: int = 0) -> None:
        """Continues with this clock; no event is before `last_at`."""
        self.clock, self.last_at = clock, last_at

    def mark_read(self, mail_seq: int) -> None:
        """Marks the mail up to here as read: its events are in the journal, or it needs none."""
        self.mail_seen = mail_seq

    # ── recording ─────────────────────────────────────────────────────────────────────────────────

    def record(
        self,
        event: Event,
        *,
        row: CallRow | None = None,
        extras: Extras = NOTHING,
        move: Move | None = None,
        guarded: bool = False,
        progress: bool = False,
        body: bytes | None = None,
        at: int | None = None,
    ) -> Stamp:
        """Queues the event. Returns its place in the order of the job's events; it becomes durable after all before
        it."""
        if self.lost is not None:
            raise self.lost
        # The code of `reserve`, written out for speed: every event passes here.
        self._order = order = self._order + 1
        if at is None:
            at = self.clock.wall_us()
        if at < self.last_at:
            at = self.last_at
        else:
            self.last_at = at
        self._entries.append(PendingEvent(order, event, row, extras, move, guarded, progress, body, at))
        if self._sent is None and not self._reading:
            self._courier.wake(self)
        return Stamp(order, at)

    def reserve(self, at: int | None = None) -> Stamp:
        """Reserves the next place in the order, with its job time: `at`, or now."""
        self._order += 1
        if at is None:
            at = self.clock.wall_us()
        self.last_at = max(self.last_at, at)
        return Stamp(self._order, self.last_at)

    async def durable(self) -> None:
        """Waits until everything recorded so far is on disk; or raises the error why it never will be."""
        if self.lost is not None:
            raise self.lost
        if self._durable >= self._order:
            return
        if self._entries and self._sent is None and not self._reading:
            self._courier.hurry(self)
            if self._durable >= self._order:
                return
        future = asyncio.get_running_loop().create_future()
        self._waiters.append((self._order, future))
        await future

    # ── sending ───────────────────────────────────────────────────────────────────────────────────

    def take(self) -> Append | None:
        """The next append: the one whose outcome is not known yet, or all queued events."""
        if self.lost is not None or self._reading:
            return None
        if self._sent is None and self._entries:
            self._sent_entries = self._next_entries()
            try:
                self._sent = self._seal_fitting()
            except Exception:
                self._put_back()
                raise
        return self._sent

    def _put_back(self) -> None:
        self._entries.extendleft(reversed(self._sent_entries))
        self._sent_entries = []

    def _seal_fitting(self) -> Append:
        try:
            return self._seal(self._sent_entries)
        except TooLarge:
            if len(self._sent_entries) == 1:
                raise
            return self._seal_half()

    def _seal_half(self) -> Append:
        """Halves an append that is too large until it fits. An event that does not fit alone is an error of the code
        that recorded it."""
        while True:
            half = len(self._sent_entries) // 2
            self._entries.extendleft(reversed(self._sent_entries[half:]))
            self._sent_entries = self._sent_entries[:half]
            try:
                return self._seal(self._sent_entries)
            except TooLarge:
                if half <= 1:
                    raise

    def _next_entries(self) -> list[PendingEvent]:
        """As many events as fit in one append; an event that moves the job is the last of it."""
        entries: list[PendingEvent] = []
        while self._entries and len(entries) < EVENTS_PER_APPEND_MAX:
            entries.append(self._entries.popleft())
            if entries[-1].move is not None:
                break
        return entries

    def _seal(self, entries: Sequence[PendingEvent]) -> Append:
        times = [entry.at for entry in entries]
        if times != sorted(times):  # the last event of a hold may follow mail that is younger
            times = list(itertools.accumulate(times, max))
        rows: list[CallRow] = []
        extras: list[Extras] = []
        guarded = progress = False
        for nth, entry in enumerate(entries):
            if entry.guarded:
                guarded = True
            if entry.progress:
                progress = True
            if entry.row is not None:
                rows.append(_stamp_row(entry.row, self.holder.head.seq + nth + 1, times[nth]))
            if entry.extras is not NOTHING:
                extras.append(entry.extras)
        return append_of(
            self.holder,
            [entry.event for entry in entries],
            bodies=[entry.body for entry in entries],
            at=times,
            mail_seen=self.mail_seen if guarded else None,
            move=entries[-1].move,
            progress=progress,
            extras=_merge_extras([Extras(calls=tuple(rows)), *extras]) if rows or extras else NOTHING,
        )

    def settle(self, outcome: Head | HoldfastError) -> bool:
        """Applies the outcome of the append that was sent. True: there is more to send."""
        assert self._sent is not None
        if isinstance(outcome, Head):
            self.holder = msgspec.structs.replace(self.holder, head=outcome)
            self._mark_durable(max(entry.order for entry in self._sent_entries))
            self._sent, self._sent_entries = None, []
            if self._mail_hinted and self.hold_for_mail():
                self._on_mail()
        elif isinstance(outcome, MailWaiting):
            self._sent = None
            self._put_back()
            self._reading = True
            self._on_mail()
        elif not isinstance(outcome, Unavailable):
            self.give_up(outcome)
        return self.lost is None and not self._reading and bool(self._entries)

    def _mark_durable(self, order: int) -> None:
        self._durable = max(order, self._durable)
        while self._waiters and self._waiters[0][0] <= order:
            _, future = self._waiters.popleft()
            if not future.done():
                future.set_result(None)

    # ── mail, and the end of the hold ─────────────────────────────────────────────────────────────

    def hold_for_mail(self) -> bool:
        """Sends nothing until the mail has been read. False: it is already being read, or will be when the append that
        was sent is settled."""
        self._mail_hinted = self._sent is not None
        if self._reading or self._mail_hinted or self.lost is not None:
            return False
        self._reading = True
        return True

    def mail_read(
        self, mail_seq: int, entries: Sequence[PendingEvent], keep: Callable[[PendingEvent], bool]
    ) -> None:
        """Ends `hold_for_mail`: the mail up to here is read. Its events follow the queued events that `keep` accepts,
        in the order of their recording; only an event that ends the hold stays last."""
        dropped = {entry.order for entry in self._entries if not keep(entry)}
        remaining = [entry for entry in self._entries if entry.order not in dropped]
        last = [remaining.pop()] if remaining and remaining[-1].move is not None else []
        self._entries = deque([*remaining, *entries, *last])
        if dropped:
            self._withdraw(min(dropped))
        self.mail_seen = mail_seq
        self._reading = False
        if self._entries:
            self._courier.wake(self)
        else:
            self._mark_durable(self._order)

    def _withdraw(self, order: int) -> None:
        """Raises Withdrawn for callers that wait for an event which is not written: a call without its intent must not
        fire."""
        for place, future in self._waiters:
            if place >= order and not future.done():
                future.set_exception(Withdrawn("the job was cancelled before this was written"))
        self._waiters = deque(waiter for waiter in self._waiters if waiter[0] < order)

    def give_up(self, error: HoldfastError) -> None:
        """Writes nothing more; callers that wait get the error."""
        if self.lost is not None:
            return
        self.lost = error
        self._entries.clear()
        for _, future in self._waiters:
            if not future.done():
                future.set_exception(error)
        self._waiters.clear()
        self._on_loss(error)


def _stamp_row(row: CallRow, seq: int, at: int) -> CallRow:
    """The ledger row with the place and time of its event."""
    if row.status in SETTLED:
        return msgspec.structs.replace(row, result_seq=seq, settled_at=at)
    return msgspec.structs.replace(row, intent_seq=seq, prepared_at=at)


def _merge_extras(parts: Sequence[Extras]) -> Extras:
    parts = [part for part in parts if part]
    if not parts:
        return NOTHING

    def all_of(name: str) -> tuple[Any, ...]:
        return tuple(item for part in parts for item in getattr(part, name))

    turns = [part.turn for part in parts if part.turn is not None]
    assert len(turns) <= 1, "one turn, one append"
    return Extras(
        calls=all_of("calls"),
        timers=all_of("timers"),
        children=all_of("children"),
        letters=all_of("letters"),
        turn=turns[0] if turns else None,
        blobs=all_of("blobs"),
        spend=all_of("spend"),
        raises=all_of("raises"),
    )


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """An event's place in the order of the job's events, and its job time."""

    seq: int
    at: int


class Recorder(Protocol):
    """Receives the events of a run. They are in order at once, and durable soon."""

    def record(
        self,
        event: Event,
        *,
        row: CallRow | None = None,
        extras: Extras = NOTHING,
        guarded: bool = False,
        progress: bool = False,
        body: bytes | None = None,
        at: int | None = None,
    ) -> Stamp:
        """Records the event after all before it. `body`: its bytes as `hash_chain` writes them, where they are known
        already. `at`: its job time, if that is not now; job time does not go back."""
        ...

    async def durable(self) -> None:
        """Waits until everything recorded so far is on disk."""
        ...
