"""The append: everything a job changes, in one fenced atomic write.

An append names the head that it was built on (seq and hash), the fence and lease token that it writes with, and what it
writes: new events, and the rows that belong to them (ledger rows, timers, children, mail to other jobs, a turn of its
session, its cost). The store writes all of it or nothing.

Three results are not failures of the database, and the writer reacts to each in its own way:

    already applied  the head is the one that this append leads to: the reply was lost, the write was not
    Fenced           another worker holds the job; stop running it
    MailWaiting      the job has unread mail; read it first. Checked for appends that wait, finish or fire, so that no
                     wake-up is lost and nothing fires after an accepted cancel
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.errors import InvalidMove, TooLarge
from holdfast.model.budget import Charge, LimitRaise
from holdfast.model.events import Event
from holdfast.model.hash_chain import Head, SealedEvent, seal
from holdfast.model.jobs import JobDraft
from holdfast.model.ledger import CallRow
from holdfast.model.limits import APPEND_BYTES_MAX, EVENTS_PER_APPEND_MAX
from holdfast.model.mailbox import MailDraft
from holdfast.model.session import TurnCommit
from holdfast.model.states import TERMINAL, Status, WaitReason


class Timer(msgspec.Struct, frozen=True):
    """A durable timer. `due_at` None removes it."""

    step_key: str
    due_at: int | None


class Move(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Status change of the job. An append that leaves `running` gives the lease back in the same write.

    `failed` counts one more failed attempt. `anew`: a person requeued the job, and the counts of attempts and takeovers
    restart at zero.
    """

    status: Status
    reason: WaitReason | None = None
    wake_at: int | None = None
    ready_at: int = 0
    failed: bool = False
    anew: bool = False
    takeover: bool = False
    """The holder is gone and another process writes this; counts as a takeover, as a claim after a lost lease does."""

    @property
    def over(self) -> bool:
        return self.status in TERMINAL


class Extras(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are written beside the events, in the same transaction."""

    calls: tuple[CallRow, ...] = ()
    timers: tuple[Timer, ...] = ()
    children: tuple[JobDraft, ...] = ()
    letters: tuple[MailDraft, ...] = ()
    turn: TurnCommit | None = None
    blobs: tuple[bytes, ...] = ()
    """Bytes that the events name by digest."""
    spend: tuple[Charge, ...] = ()
    """The cost of the events, for each budget that applies to the job."""
    raises: tuple[LimitRaise, ...] = ()

    def __bool__(self) -> bool:
        beside = self.calls or self.timers or self.children or self.letters or self.turn or self.blobs
        return bool(beside or self.spend or self.raises)


NOTHING = Extras()


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """One write of one job. `append_of` builds it and seals the events."""

    job_id: str
    namespace: str
    fence: int
    lease_token: str
    seen: Head
    head: Head
    events: tuple[SealedEvent, ...]
    mail_seen: int | None = None
    move: Move | None = None
    progress: bool = False
    extras: Extras = NOTHING


class Holder(msgspec.Struct, frozen=True):
    """Write credentials of a holder: its lease on one job, and the head it has seen."""

    job_id: str
    namespace: str
    fence: int
    lease_token: str
    head: Head


def append_of(
    holder: Holder,
    events: Iterable[Event],
    *,
    at: int | Sequence[int],
    mail_seen: int | None = None,
    move: Move | None = None,
    progress: bool = False,
    extras: Extras = NOTHING,
    bodies: Sequence[bytes | None] | None = None,
) -> Append:
    """Build the append that continues the holder's journal with these events; there must be at least one.

    An append without events would not move the head, and a writer could not tell whether it was applied or lost. `at`:
    the time of all events, or of each. `bodies`: the encoded bodies of events that are already encoded.
    """
    sealed, head = seal(holder.job_id, holder.head, holder.fence, at, events, bodies)
    if not sealed:
        msg = "an append needs at least one event"
        raise InvalidMove(msg, hint="Write the fact that belongs to the change.")
    size = sum([len(event.body or b"") for event in sealed])
    if len(sealed) > EVENTS_PER_APPEND_MAX or size > APPEND_BYTES_MAX:
        msg = (
            f"an append of {len(sealed):,} events and {size:,} bytes; "
            f"allowed are {EVENTS_PER_APPEND_MAX:,} and {APPEND_BYTES_MAX:,}"
        )
        raise TooLarge(msg, hint="Write them in several appends.")
    return Append(
        job_id=holder.job_id,
        namespace=holder.namespace,
        fence=holder.fence,
        lease_token=holder.lease_token,
        seen=holder.head,
        head=head,
        events=sealed,
        mail_seen=mail_seen,
        move=move,
        progress=progress,
        extras=extras,
    )


def advance_holder(holder: Holder, append: Append) -> Holder:
    """The holder after the append is durable."""
    return Holder(holder.job_id, holder.namespace, holder.fence, holder.lease_token, append.head)
