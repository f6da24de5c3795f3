"""Journal writer: takes the events of one job at once, and hands them to the group commit as appends.

`record` never waits. It gives a fact its place and its job time and returns; whoever must not go on before the fact is
on disk waits for `durable`. Facts are sealed (numbered, chained) only when the committer takes them, all that are there
in one append. So a chain of reads costs no waits, and what meets on the way to the disk shares the trip.

An append that was sent is kept until its outcome is known, byte for byte: after a lost reply the same bytes are sent
again, and the store recognises them. Four outcomes:

    a head          the facts are durable
    MailWaiting     somebody wrote to the job, and one of the facts may not pass that unread (it fires, waits or ends).
                    Nothing was written: the facts go back, and the reader of the mail decides which of them still hold
    Unavailable     nothing is known to be wrong with the append: the same again, a little later
    anything else   the job is not ours any more, or worse: nothing is written ever again, and whoever waits is told
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
    """A fact on its way, and what is written beside it. `guarded`: it may not be written past unread mail."""

    order: int
    event: Event
    row: CallRow | None = None
    extras: Extras = NOTHING
    move: Move | None = None
    guarded: bool = False
    progress: bool = False
    body: bytes | None = None
    at: int = 0


class Courier(Protocol):
    """Takes appends to the store."""

    def wake(self, pen: JournalWriter) -> None:
        """This pen has something to send, soon."""
        ...

    def hurry(self, pen: JournalWriter) -> None:
        """Somebody waits for what this pen has to send."""
        ...


class JournalWriter:
    """Writes one job's journal, as long as the job is held."""

    def __init__(
        self,
        holder: Holder,
        *,
        mail_seen: int,
        clock: Clock,
        courier: Courier,
        on_mail: Callable[[], None],
        on_loss: Callable[[HoldfastError], None],
        last_at: int = 0,
    ) -> None:
        self.holder = holder
        self.mail_seen = mail_seen
        self.lost: HoldfastError | None = None
        self.clock = clock
        self.last_at = last_at
        """Job time of the last fact: no later one is before it."""
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
        """Facts go on in this time, and none is before the last one."""
        self.clock, self.last_at = clock, last_at

    def mark_read(self, mail_seq: int) -> None:
        """The mail up to here is known, and has left its facts in the journal or needs none."""
        self.mail_seen = mail_seq

    # ── in ────────────────────────────────────────────────────────────────────────────────────────

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
        """The fact's place in the order of all facts of this job; it will be durable after all before it."""
        if self.lost is not None:
            raise self.lost
        # As `reserve` has it, written out: every fact passes here.
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
        """The next place in the order, and its job time: now, unless it is said."""
        self._order += 1
        if at is None:
            at = self.clock.wall_us()
        self.last_at = max(self.last_at, at)
        return Stamp(self._order, self.last_at)

    async def durable(self) -> None:
        """Everything recorded so far is on disk; or the error that says why it never will be."""
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

    # ── out ───────────────────────────────────────────────────────────────────────────────────────

    def take(self) -> Append | None:
        """The next append: the one whose outcome is not known, or all facts that are there."""
        if self.lost is not None or self._reading:
            return None
        if self._sent is None and self._entries:
            self._sent_entries = self._next_entries()
            try:
                self._sent = self._fitting()
            except Exception:
                self._put_back()
                raise
        return self._sent

    def _put_back(self) -> None:
        self._entries.extendleft(reversed(self._sent_entries))
        self._sent_entries = []

    def _fitting(self) -> Append:
        try:
            return self._sealed(self._sent_entries)
        except TooLarge:
            if len(self._sent_entries) == 1:
                raise
            return self._half()

    def _half(self) -> Append:
        """Half of the facts that together were too many bytes, and half of that, until it fits. One that does not fit
        alone is whoever's error that said it."""
        while True:
            half = len(self._sent_entries) // 2
            self._entries.extendleft(reversed(self._sent_entries[half:]))
            self._sent_entries = self._sent_entries[:half]
            try:
                return self._sealed(self._sent_entries)
            except TooLarge:
                if half <= 1:
                    raise

    def _next_entries(self) -> list[PendingEvent]:
        """As many as fit in one append; one that moves the job is the last of it."""
        taken: list[PendingEvent] = []
        while self._entries and len(taken) < EVENTS_PER_APPEND_MAX:
            taken.append(self._entries.popleft())
            if taken[-1].move is not None:
                break
        return taken

    def _sealed(self, entries: Sequence[PendingEvent]) -> Append:
        times = [entry.at for entry in entries]
        if times != sorted(times):  # the last word of a hold may stand behind mail that came after it
            times = list(itertools.accumulate(times, max))
        rows: list[CallRow] = []
        beside: list[Extras] = []
        guarded = progress = False
        for nth, entry in enumerate(entries):
            if entry.guarded:
                guarded = True
            if entry.progress:
                progress = True
            if entry.row is not None:
                rows.append(_placed(entry.row, self.holder.head.seq + nth + 1, times[nth]))
            if entry.extras is not NOTHING:
                beside.append(entry.extras)
        return append_of(
            self.holder,
            [entry.event for entry in entries],
            bodies=[entry.body for entry in entries],
            at=times,
            mail_seen=self.mail_seen if guarded else None,
            move=entries[-1].move,
            progress=progress,
            extras=_together([Extras(calls=tuple(rows)), *beside]) if rows or beside else NOTHING,
        )

    def settle(self, outcome: Head | HoldfastError) -> bool:
        """What came of the append that was sent. True: there is more to send."""
        assert self._sent is not None
        if isinstance(outcome, Head):
            self.holder = msgspec.structs.replace(self.holder, head=outcome)
            self._arrived(max(entry.order for entry in self._sent_entries))
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

    def _arrived(self, order: int) -> None:
        self._durable = max(order, self._durable)
        while self._waiters and self._waiters[0][0] <= order:
            _, future = self._waiters.popleft()
            if not future.done():
                future.set_result(None)

    # ── mail and the end ──────────────────────────────────────────────────────────────────────────

    def hold_for_mail(self) -> bool:
        """Nothing is sent until the mail has been read. False: it is being read, or will be once what was sent is
        settled."""
        self._mail_hinted = self._sent is not None
        if self._reading or self._mail_hinted or self.lost is not None:
            return False
        self._reading = True
        return True

    def mail_read(
        self, mail_seq: int, facts: Sequence[PendingEvent], keep: Callable[[PendingEvent], bool]
    ) -> None:
        """The mail up to here is known. Its facts follow those that still hold, in the order they were learnt; only
        one that ends the hold stays last."""
        dropped = {entry.order for entry in self._entries if not keep(entry)}
        kept = [entry for entry in self._entries if entry.order not in dropped]
        last = [kept.pop()] if kept and kept[-1].move is not None else []
        self._entries = deque([*kept, *facts, *last])
        if dropped:
            self._withdraw(min(dropped))
        self.mail_seen = mail_seq
        self._reading = False
        if self._entries:
            self._courier.wake(self)
        else:
            self._arrived(self._order)

    def _withdraw(self, order: int) -> None:
        """Whoever waits for a fact that is not written hears so: an intent that is not there must not fire."""
        for place, future in self._waiters:
            if place >= order and not future.done():
                future.set_exception(Withdrawn("the job was cancelled before this was written"))
        self._waiters = deque(waiter for waiter in self._waiters if waiter[0] < order)

    def give_up(self, error: HoldfastError) -> None:
        """Nothing more is written; whoever waits hears why."""
        if self.lost is not None:
            return
        self.lost = error
        self._entries.clear()
        for _, future in self._waiters:
            if not future.done():
                future.set_exception(error)
        self._waiters.clear()
        self._on_loss(error)


def _placed(row: CallRow, seq: int, at: int) -> CallRow:
    """The ledger row with the place and time of its fact."""
    if row.status in SETTLED:
        return msgspec.structs.replace(row, result_seq=seq, settled_at=at)
    return msgspec.structs.replace(row, intent_seq=seq, prepared_at=at)


def _together(parts: Sequence[Extras]) -> Extras:
    parts = [part for part in parts if part]
    if not parts:
        return NOTHING

    def all_of(name: str) -> tuple[Any, ...]:
        return tuple(one for part in parts for one in getattr(part, name))

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
    """A fact's place in the order of the job's facts, and its job time."""

    seq: int
    at: int


class Recorder(Protocol):
    """Where a run's facts go. They are in order at once, and durable soon."""

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
        """The event is in the journal or will be, after all before it. `body`: as `chain` writes it, where it is known
        already. `at`: its job time, if that is not now; job time does not go back."""
        ...

    async def durable(self) -> None:
        """Everything recorded so far is on disk."""
        ...
