"""Job view: the head and the journal of one job as a view. Nothing here waits or writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast.api.job_needs import find_causes, needs_of
from holdfast.api.job_records import BudgetView, Checked, EventView, JobView
from holdfast.api.job_snapshot import Loaded
from holdfast.api.plan_view import plans_of
from holdfast.engine.verify.journal_checks import check_journal_alone
from holdfast.model import budget as money
from holdfast.model import canonical
from holdfast.model import events as e
from holdfast.model.budget import SHARED, BudgetAccount
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.jobs import JobHead
from holdfast.model.states import TERMINAL, Status, WaitReason


def view_event(sealed: SealedEvent) -> EventView:
    """The event as it is stored, whether or not this version knows its type."""
    return EventView(
        seq=sealed.seq,
        type=sealed.type,
        version=sealed.version,
        at=sealed.at,
        fence=sealed.fence,
        body=None if sealed.body is None else canonical.decode_stored(sealed.body),
        hash=sealed.hash.hex(),
    )


def check_journal(head: JobHead, sealed: Sequence[SealedEvent]) -> Checked:
    """Recomputes the journal from its first event, and compares the head with it."""
    violations = tuple(
        f"{violation.invariant}: {violation.detail}" for violation in check_journal_alone(head, list(sealed))
    )
    if not violations and (len(sealed), sealed[-1].hash) != (head.head_seq, head.head_hash):
        violations = (f"I5: the head is at event {head.head_seq}, the journal at {len(sealed)}",)
    return Checked(head.job_id, len(sealed), violations)


def view_of(job: Loaded) -> JobView:
    """The job as a client sees it."""
    head, created, state = job.head, job.created, job.job
    claims = [fact for fact in job.facts if isinstance(fact.event, e.JobClaimed)]
    cancels = [fact.event for fact in job.facts if isinstance(fact.event, e.CancelRequested)]
    cancel = cancels[0] if cancels else e.CancelRequested()
    last = claims[-1].event if claims else None
    return JobView(
        job_id=head.job_id,
        namespace=head.namespace,
        kind=head.kind,
        queue=head.queue,
        priority=head.priority,
        status=head.status,
        wait_reason=head.wait_reason,
        wake_at=head.wake_at,
        request_key=created.request_key,
        parent_job_id=created.parent_job_id,
        session_id=head.session_id,
        created_at=job.facts[0].at,
        started_at=claims[0].at if claims else None,
        changed_at=job.facts[-1].at,
        ended_at=job.facts[-1].at if head.status in TERMINAL else None,
        input=created.input,
        output=state.output,
        error=_error(job),
        attempts=head.attempts,
        takeovers=head.takeovers,
        claims=state.claims,
        worker=head.lease_owner or None if head.status is Status.RUNNING else None,
        last_worker=last.worker if isinstance(last, e.JobClaimed) else None,
        cancel_requested=state.cancel_requested,
        cancelled_by=cancel.by,
        cancelled_why=cancel.why,
        unread=0 if head.status in TERMINAL else max(head.mail_seq - state.mail_seq, 0),
        events=len(job.facts),
        steps=len(state.steps),
        calls=dict(Counter(str(call.status) for call in state.calls.values())),
        needs=tuple(needs_of(job)),
        plans=plans_of(((fact.at, fact.event) for fact in job.facts), over=head.status in TERMINAL),
        budgets=tuple(map(_budget, job.accounts)),
    )


def _budget(account: BudgetAccount) -> BudgetView:
    return BudgetView(
        budget_id=account.budget_id,
        since=account.created_at,
        limits=money.to_json(account.limits),
        spent={limit: getattr(account, limit) for limit in SHARED},
    )


def _error(job: Loaded) -> Any:
    if job.head.status in TERMINAL:
        return job.job.error
    causes = find_causes(job)
    if job.head.wait_reason is WaitReason.DEAD_LETTER:
        return causes
    errors = [cause["error"] for cause in causes if cause.get("error") is not None]
    return errors[-1] if errors else None
