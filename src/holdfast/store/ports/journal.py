"""The journal: the one kind of write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from holdfast.errors import HoldfastError, InvalidMove
from holdfast.model.append import NOTHING, Append, Extras, Move
from holdfast.model.events import Event
from holdfast.model.hash_chain import Head, SealedEvent
from holdfast.model.jobs import JobDraft, JobHead, Submitted
from holdfast.model.states import Status


class Ruling(msgspec.Struct, frozen=True, gc=False):
    """What a short hold decided to write: events, and where they leave the job. `times`: when they happened, if that
    was not now, as in the past of a fork."""

    events: tuple[Event, ...]
    move: Move
    extras: Extras = NOTHING
    times: tuple[int, ...] | None = None


def check_plain(ruling: Ruling) -> Ruling:
    """The ruling, if it only gives the job back: what ends a job, or brings more, goes one at a time."""
    beside = ruling.extras is not NOTHING and ruling.extras
    if beside or ruling.move.over or ruling.move.status is Status.RUNNING:
        msg = f"a hold on many jobs cannot leave one {ruling.move.status}, nor write more than its events"
        raise InvalidMove(msg, hint="Hold that job by itself, with `hold`.")
    return ruling


Decide = Callable[[JobHead], Ruling | None]
"""A pure decision on a head. None means: leave the job alone."""


class Journal(Protocol):
    async def append(self, append: Append) -> Head:
        """Everything in the append is durable, and the job's head is `append.head`.

        Guarantees:
            All or nothing, and only while fence, lease token, head seq and head hash are the ones named and the job is
            running. Sending the same append again after a lost reply succeeds and writes nothing.

        Raises:
            Fenced: fence or token are not the current ones, or the job no longer runs. Nothing was written.
            MailWaiting: `mail_seen` was given and is not the newest. Nothing was written.
            Broken: same holder, other head: this process lost track of its own writes and must stop.

        When the move ends the job, its timers go, the next job of its session becomes live, and the job is nobody's.
        """
        ...

    @property
    def is_near(self) -> bool:
        """Whether `append_now` is worth asking: not, if one has to travel to the store."""
        ...

    def append_now(self, append: Append) -> Head | None:
        """As `append`, before this returns. None: it was refused, or cannot be had here and now. Nothing was written,
        and `append_many` says which it is."""
        ...

    async def append_many(self, appends: Sequence[Append]) -> list[Head | HoldfastError]:
        """The outcome of each append, in order, from as few commits as possible.

        The appends are of different jobs. One that is refused, or breaks a constraint, leaves its neighbours unharmed.
        """
        ...

    async def read(self, job_id: str, *, after: int = 0, limit: int | None = None) -> list[SealedEvent]:
        """Events with seq greater than `after`, in order, bodies included (erased ones are None)."""
        ...

    async def since_commit(self, job_id: str, *, limit: int | None = None) -> list[SealedEvent]:
        """What a resume reads: the first event, the one before the last `checkpoint_saved`, and all from there on, in
        order. The whole journal, if it has none. `limit` counts those that follow one another, not a first one that
        stands apart."""
        ...

    async def read_many(self, job_ids: Sequence[str]) -> dict[str, list[SealedEvent]]:
        """All events of each of these jobs, as `read` gives them, in one go: for journals that are short. A job that
        does not exist is not in the answer."""
        ...

    async def hold(self, job_id: str, decide: Decide) -> Head | None:
        """A short hold: acquire, append what `decide` says, give back; in one transaction, without agent code.

        Only on a job that nobody drives (not running, or its lease is over); otherwise, or if `decide` says None, or
        if the job is over, nothing happens and the answer is None. The fence grows by one. An unknown job is NotFound.
        `decide` may be called more than once and must be pure.
        """
        ...

    async def hold_expired(self, decide: Decide, *, limit: int = 1000) -> list[tuple[JobHead, Ruling]]:
        """A short hold on every running job whose lease is over, longest first, up to `limit`, in one transaction.

        Answers with the jobs it wrote to: the head as it was, and what was written. Whether a lease is over is judged
        inside the transaction, on the row it writes: a holder that renews meanwhile keeps its job, and of two who do
        this at once one gets each job. Where `decide` says None the job stays as it is.

        A ruling here gives the job back and nothing else; one that ends it, or brings extras, raises InvalidMove and
        nothing at all is written.
        """
        ...

    async def begin(self, draft: JobDraft, rulings: Sequence[Ruling]) -> Submitted:
        """The job is submitted and these short holds on it are written, in one commit: nobody finds it with less.

        As `Jobs.submit`, to which a repeat of the request is the same request; the draft carries its job id. A request
        that was known before is answered as then, and nothing is written.
        """
        ...
