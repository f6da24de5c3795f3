"""Journal: the fenced, atomic append. It is the only way to change a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from holdfast.errors import HoldfastError, InvalidMove
from holdfast.model.append import NOTHING, Append, Extras, Move
from holdfast.model.events import Event
from holdfast.model.hash_chain import Head, SealedEvent
from holdfast.model.jobs import JobDraft, JobHead, SubmittedJob
from holdfast.model.states import Status


class Ruling(msgspec.Struct, frozen=True, gc=False):
    """The decision of a short hold: events, and the state in which they leave the job. `times`: when the events
    happened, if not now, as in the past of a fork."""

    events: tuple[Event, ...]
    move: Move
    extras: Extras = NOTHING
    times: tuple[int, ...] | None = None


def check_plain(ruling: Ruling) -> Ruling:
    """Return the ruling if it only releases the job. One that ends the job, or has extras, needs `hold`."""
    has_extras = ruling.extras is not NOTHING and ruling.extras
    if has_extras or ruling.move.over or ruling.move.status is Status.RUNNING:
        msg = f"a hold on many jobs cannot leave one {ruling.move.status}, nor write more than its events"
        raise InvalidMove(msg, hint="Hold that job by itself, with `hold`.")
    return ruling


Decide = Callable[[JobHead], Ruling | None]
"""A pure decision on a head. None: the job stays as it is."""


class Journal(Protocol):
    async def append(self, append: Append) -> Head:
        """Write everything in the append, in one transaction; the job's head is then `append.head`.

        Guarantees:
            All or nothing, and only while the job is running and has the fence, lease token, head seq and head hash
            that the append names. Sending the same append again after a lost reply succeeds and writes nothing.

        Raises:
            Fenced: fence or token are not the current ones, or the job no longer runs. Nothing was written.
            MailWaiting: the append names a `mail_seen` that is not the newest. Nothing was written.
            Broken: same holder, other head: this process lost track of its own writes and must stop.

        When the move ends the job, its timers are removed, the next job of its session becomes live, and its lease
        ends.
        """
        ...

    @property
    def is_near(self) -> bool:
        """Whether `append_now` is worth a try: True on SQLite, where an append needs no round trip."""
        ...

    def append_now(self, append: Append) -> Head | None:
        """As `append`, but durable before this returns. None: it was rejected, or is not possible right now. Nothing
        was written then, and `append_many` returns the reason."""
        ...

    async def append_many(self, appends: Sequence[Append]) -> list[Head | HoldfastError]:
        """Write each append and return its outcome, in order, with as few commits as possible.

        The appends are of different jobs. One that is rejected, or breaks a constraint, does not affect the others.
        """
        ...

    async def read(self, job_id: str, *, after: int = 0, limit: int | None = None) -> list[SealedEvent]:
        """Events with a seq greater than `after`, in order, with their bodies (those of erased events are None)."""
        ...

    async def since_commit(self, job_id: str, *, limit: int | None = None) -> list[SealedEvent]:
        """The events that a resume reads: the first event, the one before the last `checkpoint_saved`, and all from
        there on, in order. The whole journal, if it has no checkpoint. `limit` does not count a first event that is
        separate from the rest."""
        ...

    async def read_many(self, job_ids: Sequence[str]) -> dict[str, list[SealedEvent]]:
        """All events of each of these jobs, as `read` returns them, in one query: for short journals. A job that does
        not exist is left out."""
        ...

    async def hold(self, job_id: str, decide: Decide) -> Head | None:
        """Short hold: acquire the job, append what `decide` returns, release it, in one transaction without agent code.

        Only a job without a live holder (not running, or its lease has expired) can be held; otherwise, or if `decide`
        returns None, or if the job has ended, nothing happens and the result is None. The fence grows by one. Raises
        NotFound for an unknown job. `decide` may be called more than once and must be pure.
        """
        ...

    async def hold_expired(self, decide: Decide, *, limit: int = 1000) -> list[tuple[JobHead, Ruling]]:
        """Short hold on every running job whose lease has expired, longest expired first, up to `limit`, in one
        transaction.

        Returns the jobs it wrote to: the head before the hold, and what was written. The expiry of a lease is checked
        inside the transaction, on the row that it writes: a holder that renews meanwhile keeps its job, and of two
        concurrent sweeps one gets each job. Where `decide` returns None the job stays as it is.

        A ruling here may only release the job; one that ends it, or has extras, raises InvalidMove, and nothing at all
        is written.
        """
        ...

    async def begin(self, draft: JobDraft, rulings: Sequence[Ruling]) -> SubmittedJob:
        """Submit the job and write these short holds on it, in one commit: no reader sees the job without them.

        A repeat of the request is recognised as by `Jobs.submit`: it returns the first job, and writes nothing. The
        draft has a job id.
        """
        ...
