"""Commands to a job: cancel, signal, answer, reconcile, resume, raise a budget. Each is durable when it is accepted,
and takes effect once under its operation id. A command to a job that no worker runs is applied at once, by a short hold
of the job, if nothing else must learn of it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from holdfast.api import budget_raise, command_checks, job_needs
from holdfast.api.context import ApiContext
from holdfast.api.job_needs import open_children
from holdfast.api.job_records import Accepted
from holdfast.api.job_snapshot import Loaded
from holdfast.api.operation import operation
from holdfast.api.questions import check_answer, match_answer
from holdfast.api.requests import CommandRequest, JobId, Name, OperationRequest, Whole
from holdfast.api.sender_liveness import check_not_standing_still
from holdfast.errors import InvalidMove, NotFound
from holdfast.model.access import AccessScope
from holdfast.model.append import Move
from holdfast.model.budget import Budget
from holdfast.model.events import CancelRequested, JobCancellation
from holdfast.model.ids import check_name
from holdfast.model.jobs import JobFilter
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import HELD, TERMINAL, MailKind, Status, WaitReason
from holdfast.store.ports.journal import Decide, Ruling

COMMAND_ERRORS: Final = (404, 409, 415, 422)
RECENTLY_ENDED: Final = 100
"""How many jobs of each final status are searched for an approval that may have been decided by this very command."""

_OPEN: Final = (Status.WAITING, Status.PENDING, Status.RUNNING)


# ── cancel ────────────────────────────────────────────────────────────────────────────────────────


class CancelJob(CommandRequest, frozen=True, kw_only=True):
    """Cancel a job. It starts no further call."""

    job_id: JobId


@operation(
    "POST", "/api/jobs/{job_id}/stop", scope=AccessScope.OPERATE, errors=COMMAND_ERRORS, audit="job.cancel"
)
async def cancel_job(api: ApiContext, request: CancelJob) -> Accepted:
    """Cancel a job: it makes no further calls."""
    job = await api.load(request.job_id)
    command = command_checks.cancel(request.why, request.by, api.operation_id(request.operation_id))
    if (earlier := command_checks.earlier_cancel(job, command)) is not None:
        return earlier
    return await cancel_loaded(api, job, command)


async def cancel_loaded(api: ApiContext, job: Loaded, command: CancelRequested) -> Accepted:
    """Cancels a job that is loaded and may be cancelled."""
    job_id = job.head.job_id
    if not needs_its_worker(job):
        ruling = Ruling((command, JobCancellation(command.why)), Move(status=Status.CANCELLED))
        if await api.store.journal.hold(job_id, unless_moved(job, ruling)) is not None:
            return Accepted(job_id=job_id, operation_id=command.operation_id, at_once=True)
    try:
        return await api.send(job, command_checks.cancel_letter(command, job_id), "cancel")
    except InvalidMove:
        # It ended a moment ago; perhaps by this very operation, which was sent twice concurrently.
        earlier = command_checks.earlier(await api.load(job_id), command)
        if earlier is None:
            raise
        return earlier


# ── signal and answer ─────────────────────────────────────────────────────────────────────────────


class SignalJob(OperationRequest, frozen=True, kw_only=True):
    """A signal: a name that the job waits for, and a value."""

    job_id: JobId
    name: Name
    body: Any = None
    by: str = ""
    operation_id: Name | None = None


@operation("POST", "/api/jobs/{job_id}/signal", scope=AccessScope.OPERATE, errors=COMMAND_ERRORS)
async def signal_job(api: ApiContext, request: SignalJob) -> Accepted:
    """Send a signal to a job."""
    job = await api.load(request.job_id)
    check_name(request.name, "signal name")
    mail = MailDraft(
        job_id=request.job_id,
        kind=MailKind.SIGNAL,
        operation_id=api.operation_id(request.operation_id),
        name=request.name,
        body=request.body,
        sender=request.by,
    )
    if (earlier := command_checks.find_repeated(job, mail)) is not None:
        return earlier
    check_answer(job, request.name, request.body, now=api.clock.wall_us())
    return await api.send(job, mail, "signal")


class AnswerJob(OperationRequest, frozen=True, kw_only=True):
    """The answer to a question of a job: a value, or text as a person typed it."""

    job_id: JobId
    answer: Any
    question_id: Name | None = None
    by: str = ""
    operation_id: Name | None = None


@operation(
    "POST", "/api/jobs/{job_id}/answer", scope=AccessScope.DECIDE, errors=COMMAND_ERRORS, audit="job.answer"
)
async def answer_job(api: ApiContext, request: AnswerJob) -> Accepted:
    """Answer a question of a job."""
    job = await api.load(request.job_id)
    question_id, body = match_answer(job, request.answer, request.question_id, request.operation_id)
    return await signal_job(
        api,
        SignalJob(
            job_id=request.job_id,
            name=question_id,
            body=body,
            by=request.by,
            operation_id=request.operation_id,
        ),
    )


# ── reconcile ─────────────────────────────────────────────────────────────────────────────────────


class ReconcileStep(OperationRequest, frozen=True, kw_only=True):
    """Decision about a call of unknown outcome: `happened`, `not_happened`, `skip`, `fail` or `relaunch`."""

    job_id: JobId
    step_key: str
    decision: str
    why: str
    by: str
    result: Any = None
    generation: Whole | None = None
    operation_id: Name | None = None


@operation(
    "POST",
    "/api/jobs/{job_id}/steps/{step_key:path}/reconcile",
    scope=AccessScope.DECIDE,
    errors=COMMAND_ERRORS,
    audit="call.reconcile",
)
async def reconcile_step(api: ApiContext, request: ReconcileStep) -> Accepted:
    """Settle a call of unknown outcome by the decision of a person."""
    job_id, step_key, decision = request.job_id, request.step_key, request.decision
    job = await api.load(job_id)
    operation_id = api.operation_id(request.operation_id)
    generation = request.generation
    if generation is None:
        generation = command_checks.find_generation(job, step_key, operation_id)
    body = command_checks.word(
        step_key, generation, decision, why=request.why, by=request.by, result=request.result
    )
    mail = MailDraft(
        job_id=job_id, kind=MailKind.RECONCILE, operation_id=operation_id, body=body, sender=request.by
    )
    if (earlier := command_checks.find_repeated(job, mail)) is not None:
        return earlier
    if decision in command_checks.RESENDS:
        await check_not_standing_still(api.store, job, step_key, generation)
    command_checks.check_reconcile(job, body, now=api.clock.wall_us())
    need = job_needs.uncertain_need(job, step_key, generation)
    accepted = await api.send(job, mail, "reconcile")
    command_checks.must_be_first(job_needs.word_on(await api.load(job_id), need), mail)
    return accepted


# ── approve and deny ──────────────────────────────────────────────────────────────────────────────


class DecideCall(CommandRequest, frozen=True, kw_only=True):
    """`approval` is the approval's id, or that of a job with one open approval; `step_key`: which call, if the job has
    several."""

    approval: Annotated[
        Name, Meta(description="`approval_id` of an entry of list_needs, or the id of its job.")
    ]
    step_key: str | None = None


@operation(
    "POST",
    "/api/approvals/{approval}/approve",
    scope=AccessScope.DECIDE,
    errors=COMMAND_ERRORS,
    audit="call.approve",
    tool="Approve a call that waits for approval. Only when a person has seen its arguments and said so: give the "
    "person's name.",
)
async def approve_call(api: ApiContext, request: DecideCall) -> Accepted:
    """Approve a call. The id is the approval's, or that of a job with one open approval."""
    return await _decide(api, request, "approved")


@operation(
    "POST",
    "/api/approvals/{approval}/deny",
    scope=AccessScope.DECIDE,
    errors=COMMAND_ERRORS,
    audit="call.deny",
    tool="Deny a call that waits for approval. Only when a person has decided so: give the person's name.",
)
async def deny_call(api: ApiContext, request: DecideCall) -> Accepted:
    """Deny a call. The id is the approval's, or that of a job with one open approval."""
    return await _decide(api, request, "denied")


async def _decide(api: ApiContext, request: DecideCall, decision: str) -> Accepted:
    job, approval_id = await _find_approval(api, request)
    mail = MailDraft(
        job_id=job.head.job_id,
        kind=MailKind.APPROVAL,
        operation_id=api.operation_id(request.operation_id),
        body={"approval_id": approval_id, "decision": decision, "why": request.why},
        sender=check_name(request.by, "by"),
    )
    if (earlier := command_checks.find_repeated(job, mail)) is not None:
        return earlier
    command_checks.check_approval(job, approval_id, now=api.clock.wall_us())
    accepted = await api.send(job, mail, decision)
    command_checks.must_be_first(job_needs.answer_to(await api.load(job.head.job_id), approval_id), mail)
    return accepted


async def _find_approval(api: ApiContext, request: DecideCall) -> tuple[Loaded, str]:
    """The job and the approval id, for an approval named by its own id or by its job's."""
    try:
        job = await api.load(request.approval)
    except NotFound:
        return await _find_job_of(api, request.approval, request.operation_id), request.approval
    decided = command_checks.find_decided_approval(job, request.operation_id)
    return job, decided or command_checks.only_approval(job, request.step_key)


async def _find_job_of(api: ApiContext, approval_id: str, operation_id: str | None) -> Loaded:
    """The job that waits for this approval. The search covers open jobs, the waiting ones first; and, for a command
    that may be a repeat, recently ended ones."""
    for job_filter in (
        JobFilter(wait_reason=WaitReason.APPROVAL),
        *(JobFilter(status=state) for state in _OPEN),
    ):
        async for record in api.jobs(job_filter):
            job = await api.load(record.job_id)
            if approval_id in job_needs.approvals_of(job):
                return job
    for status in TERMINAL if operation_id is not None else ():
        ended = JobFilter(namespace=api.namespace, status=status)
        for record in await api.store.jobs.list(ended, limit=RECENTLY_ENDED, cursor=None):
            received = await api.store.post.read(record.job_id)
            if any(mail.operation_id == operation_id for mail in received):
                return await api.load(record.job_id)
    msg = f"there is no open approval and no job {approval_id!r}"
    raise NotFound(
        msg, hint="`holdfast jobs --reason approval` lists jobs that wait for one; a job's id will do."
    )


# ── resume and dead letters ───────────────────────────────────────────────────────────────────────


class ResumeJob(CommandRequest, frozen=True, kw_only=True):
    """`continue` goes on with the code as it is; `accept` lets recorded calls rest that the code no longer makes."""

    job_id: JobId
    choice: str = "continue"


@operation(
    "POST", "/api/jobs/{job_id}/resume", scope=AccessScope.OPERATE, errors=COMMAND_ERRORS, audit="job.resume"
)
async def resume_job(api: ApiContext, request: ResumeJob) -> Accepted:
    """Resume a job that is held for a person."""
    job = await api.load(request.job_id)
    command_checks.check_choice(request.choice)
    operation_id = api.operation_id(request.operation_id)
    mail = MailDraft(
        job_id=request.job_id,
        kind=MailKind.RESUME,
        operation_id=operation_id,
        body={"choice": request.choice, "why": request.why},
        sender=request.by,
    )
    if (earlier := command_checks.find_repeated(job, mail)) is not None:
        return earlier
    requeue = RequeueDeadLetter(
        job_id=request.job_id, why=request.why, by=request.by, operation_id=operation_id
    )
    if job.head.wait_reason is WaitReason.DEAD_LETTER:
        return await requeue_dead_letter(api, requeue)
    command = command_checks.requeue(request.why, request.by, operation_id)
    if (earlier := command_checks.earlier(job, command)) is not None:
        return earlier
    if job.head.wait_reason not in HELD:
        raise command_checks.not_held(job)
    return await api.send(job, mail, "resume")


class RequeueDeadLetter(CommandRequest, frozen=True, kw_only=True):
    """Try a dead letter again, with fresh attempts, once its cause is gone. Recorded calls are not made again."""

    job_id: JobId


@operation(
    "POST",
    "/api/dead-letters/{job_id}/requeue",
    scope=AccessScope.OPERATE,
    errors=COMMAND_ERRORS,
    audit="dead.requeue",
    tool="Try a dead letter again, with fresh attempts, once its cause is gone. Calls that it has made are not made "
    "again.",
)
async def requeue_dead_letter(api: ApiContext, request: RequeueDeadLetter) -> Accepted:
    """Requeue a dead letter: same job, same journal, same idempotency keys."""
    command = command_checks.requeue(request.why, request.by, api.operation_id(request.operation_id))
    ruling = Ruling((command,), Move(status=Status.PENDING, anew=True))
    while True:
        job = await api.load(request.job_id)
        if (earlier := command_checks.earlier(job, command)) is not None:
            return earlier
        if job.head.wait_reason is not WaitReason.DEAD_LETTER:
            raise command_checks.not_dead(job)
        # If it moved in between, the next iteration sees its new state.
        if await api.store.journal.hold(request.job_id, unless_moved(job, ruling)) is not None:
            return Accepted(job_id=request.job_id, operation_id=command.operation_id, at_once=True)


class DiscardDeadLetter(CommandRequest, frozen=True, kw_only=True):
    """End a dead letter for good."""

    job_id: JobId


@operation(
    "POST",
    "/api/dead-letters/{job_id}/discard",
    scope=AccessScope.OPERATE,
    errors=COMMAND_ERRORS,
    audit="dead.discard",
    tool="End a dead letter for good; it is not tried again. Give the reason.",
)
async def discard_dead_letter(api: ApiContext, request: DiscardDeadLetter) -> Accepted:
    """Discard a dead letter: the job is cancelled."""
    command = command_checks.cancel(
        command_checks.reason(request.why), request.by, api.operation_id(request.operation_id)
    )
    job = await api.load(request.job_id)
    if (earlier := command_checks.earlier_cancel(job, command)) is not None:
        return earlier
    if job.head.wait_reason is not WaitReason.DEAD_LETTER:
        raise command_checks.not_dead(job)
    return await cancel_loaded(api, job, command)


# ── budgets ───────────────────────────────────────────────────────────────────────────────────────


class BudgetLimits(OperationRequest, frozen=True, kw_only=True):
    """Totals, in exact units."""

    usd_micros: Whole | None = None
    tokens: Whole | None = None
    tool_calls: Whole | None = None
    wall_us: Whole | None = None
    depth: Whole | None = None
    fan_out: Whole | None = None


class RaiseBudget(OperationRequest, frozen=True, kw_only=True):
    """New totals for a budget that counts for the job. Without a `budget_id` it is the one that stopped it."""

    job_id: JobId
    limits: BudgetLimits
    by: str
    why: str = ""
    budget_id: Name | None = None
    operation_id: Name | None = None


@operation(
    "POST", "/api/jobs/{job_id}/raise", scope=AccessScope.DECIDE, errors=COMMAND_ERRORS, audit="budget.raise"
)
async def raise_budget(api: ApiContext, request: RaiseBudget) -> Accepted:
    """Raise limits of a budget that applies to a job."""
    job, operation_id = await api.load(request.job_id), api.operation_id(request.operation_id)
    limits = Budget(**{name: getattr(request.limits, name) for name in BudgetLimits.__struct_fields__})
    mail = budget_raise.letter(
        job, request.budget_id, limits, why=request.why, by=request.by, operation_id=operation_id
    )
    if (earlier := command_checks.find_repeated(job, mail)) is not None:
        return earlier
    budget_raise.check(job, mail)
    accepted = await api.send(job, mail, "raise a budget of")
    async for record in api.jobs(JobFilter(wait_reason=WaitReason.BUDGET)):
        other = await api.load(record.job_id)
        if budget_raise.waits_for(other, mail):
            await api.store.post.send(msgspec.structs.replace(mail, job_id=record.job_id))
    return accepted


def needs_its_worker(job: Loaded) -> bool:
    """Whether the job's end must reach a parent or children: only the worker that executes it notifies them."""
    return job.created.parent_job_id is not None or bool(open_children(job))


def unless_moved(job: Loaded, ruling: Ruling) -> Decide:
    """Applies the ruling only if the job has not moved since it was loaded."""
    loaded_seq = job.facts[-1].seq
    return lambda head: ruling if head.head_seq == loaded_seq else None
