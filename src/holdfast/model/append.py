"""The one kind of write: everything a job does, in one fenced atomic append.

An append names the head it was built on (seq and hash), the fence and token it writes with, and what should be true
afterwards: new events, and whatever belongs to them (ledger rows, timers, children, letters to other jobs, a turn of
its session, what it costs). Either all of it is written or none.

Three answers are not failures of the database but facts about the world, and each asks for something else:

    already there    the head is the one this append leads to: the reply was lost, the write was not
    Fenced           another holder has the job; stop driving it
    MailWaiting      somebody wrote to the job; read that first. Asked of appends that wait, finish or fire, so that no
                     wake-up is lost and nothing fires after an accepted cancel
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.errors import InvalidMove, TooLarge
from holdfast.model.budget import Charge, Raise
from holdfast.model.events import Event
from holdfast.model.hash_chain import Head, SealedEvent, seal
from holdfast.model.jobs import JobDraft
from holdfast.model.ledger import CallRow
from holdfast.model.limits import APPEND_BYTES_MAX, EVENTS_PER_APPEND_MAX
from holdfast.model.mailbox import MailDraft
from holdfast.model.session import TurnCommit
from holdfast.model.states import TERMINAL, Status, WaitReason


class Timer(msgspec.Struct, frozen=True):
    """`due_at` None removes the timer."""

    step_key: str
    due_at: int | None


class Move(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where the append leaves the job. Leaving `running` gives the lease back in the same write.

    `failed` counts one more attempt. `anew`: somebody has decided to begin again, and attempts and takeovers count from
    nothing.
    """

    status: Status
    reason: WaitReason | None = None
    wake_at: int | None = None
    ready_at: int = 0
    failed: bool = False
    anew: bool = False
    takeover: bool = False
    """The holder is gone, and another process writes this; counted like a claim that takes a job over."""

    @property
    def over(self) -> bool:
        return self.status in TERMINAL


class Extras(msgspec.Struct, frozen=True, kw_only=True):
    """What is written beside the events, in the same transaction."""

    calls: tuple[CallRow, ...] = ()
    timers: tuple[Timer, ...] = ()
    children: tuple[JobDraft, ...] = ()
    letters: tuple[MailDraft, ...] = ()
    turn: TurnCommit | None = None
    blobs: tuple[bytes, ...] = ()
    """Bytes that the events name by digest."""
    spend: tuple[Charge, ...] = ()
    """What the events cost, for each budget that counts for the job."""
    raises: tuple[Raise, ...] = ()

    def __bool__(self) -> bool:
        beside = self.calls or self.timers or self.children or self.letters or self.turn or self.blobs
        return bool(beside or self.spend or self.raises)


NOTHING = Extras()


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """One write of one job. Build it with `append_of`, which seals the events."""

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
    """What a holder writes with: its lease on one job, and the head it has seen."""

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
    """The append that continues the holder's journal with these events; there must be at least one.

    An append without events would not move the head, and a writer could not tell it from one that was lost. `at`: the
    time of all events, or of each. `bodies`: of the events that have been written out already.
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


def after(holder: Holder, append: Append) -> Holder:
    """The holder once the append is durable."""
    return Holder(holder.job_id, holder.namespace, holder.fence, holder.lease_token, append.head)
