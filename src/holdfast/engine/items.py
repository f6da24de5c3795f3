"""A work item, read: its head and its facts; and what can be ruled about it. Nothing here waits but `need_work`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.engine.causes import causes_of
from holdfast.errors import Fenced, NotFound, Unavailable
from holdfast.model.append import Move
from holdfast.model.events import Event, JobCreated, JobDeadLettered, JobFailed
from holdfast.model.hash_chain import SealedEvent, unsealed
from holdfast.model.jobs import JobHead
from holdfast.model.lease import Grant
from holdfast.model.states import TERMINAL, Status, WaitReason
from holdfast.model.time import from_iso
from holdfast.model.work import Work
from holdfast.store.contract import Store


class Facts(msgspec.Struct, frozen=True):
    """A work item as it stands: its head, and what its journal says."""

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


def granted(grant: Grant, holder: str, sealed: Sequence[SealedEvent]) -> Facts:
    """The item as the grant left it: nothing more needs to be read for it."""
    facts = tuple(unsealed(grant.job_id, sealed))
    created = facts[0][1]
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
    return Facts(head, facts)


def deadline_of(item: Facts) -> int | None:
    deadline = msgspec.convert(item.created.input, Work).deadline
    return None if deadline is None else from_iso(deadline)


def too_late() -> tuple[tuple[Event, ...], Move]:
    error = {"type": "DeadlinePassed", "message": "nobody began it by its deadline"}
    return (JobFailed(error),), Move(status=Status.FAILED)


def buried(item: Facts, error: Any) -> tuple[Event, ...]:
    """It is held with everything that went wrong since it was last begun anew, and what went wrong now."""
    causes = causes_of((sealed.at, event) for sealed, event in item.facts)
    if error is not None:
        causes.append({"why": "failed", "holder": item.head.lease_owner, "error": error})
    return (JobDeadLettered(tuple(causes) or ({"why": "its holders were lost too often"},)),)


def seen_by(item: Facts) -> int:
    """The newest letter that the journal speaks of."""
    return max((getattr(event, "mail_seq", 0) for _, event in item.facts), default=0)


def refused(item: Facts) -> Fenced:
    """Why the word of an agent does not count any more."""
    head = item.head
    if head.status in TERMINAL:
        return Fenced(
            f"work {head.job_id} is {head.status}", hint="Stop working on it; nothing of yours was written."
        )
    return Fenced(
        f"work {head.job_id} is not yours any more: it is {head.status}",
        hint="Stop working on it, and claim other work; nothing of yours was written.",
    )


def busy(job_id: str) -> Unavailable:
    return Unavailable(f"work {job_id} changes all the time", hint="Say it again.")


async def need_work(store: Store, job_id: str, namespace: str) -> JobHead:
    """The head of this work item. A job that is none, or another namespace's, does not exist."""
    head = await store.jobs.head(job_id)
    if head.namespace != namespace or await store.work.find(job_id) is None:
        raise NotFound(f"there is no work {job_id!r}", hint="`holdfast work list` shows what there is.")
    return head
