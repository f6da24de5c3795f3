"""Job snapshot: the head, the journal, the mail and the accounts of one job, as they were read at about one instant."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model import events as e
from holdfast.model import job_state
from holdfast.model.budget import BudgetAccount
from holdfast.model.hash_chain import SealedEvent, unseal
from holdfast.model.jobs import JobHead
from holdfast.model.mailbox import Mail


class ViewedEvent(msgspec.Struct, frozen=True):
    """An event and its place in the journal."""

    seq: int
    at: int
    fence: int
    event: e.Event


class Loaded(msgspec.Struct, frozen=True):
    """Everything that the store has of a job at about one instant; the journal may be a little ahead of the head."""

    head: JobHead
    facts: tuple[ViewedEvent, ...]
    job: job_state.JobState
    letters: tuple[Mail, ...] = ()
    accounts: tuple[BudgetAccount, ...] = ()
    now: int = 0
    """Store time when it was read."""

    @property
    def created(self) -> e.JobCreated:
        """The first event of every journal: the request for the job."""
        first = self.facts[0].event
        assert isinstance(first, e.JobCreated), "the fold has refused any other"
        return first

    @property
    def budgets(self) -> tuple[str, ...]:
        """The budgets that apply to it, the outermost first."""
        created = self.created
        return created.budgets if created.budget is None else (*created.budgets, self.head.job_id)


def make_snapshot(head: JobHead, sealed: Sequence[SealedEvent], received: Sequence[Mail] = ()) -> Loaded:
    facts = tuple(
        ViewedEvent(sealed_event.seq, sealed_event.at, sealed_event.fence, unseal(sealed_event))
        for sealed_event in sealed
    )
    job = job_state.fold((fact.seq, fact.fence, fact.event) for fact in facts)
    return Loaded(head, facts, job, tuple(received))
