"""Needs: what a job waits for, which decisions of a person it needs, and the commands that continue it.

A job needs a person while it waits for one, and also while it runs: an uncertain call, an approval or a question may
be open beside other work. So does a suspect that no worker claims. All are in one list.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import msgspec

from holdfast.api.job_records import Need
from holdfast.api.job_snapshot import Loaded
from holdfast.api.questions import question_needs
from holdfast.engine.recovery import causes_of, summarize_causes
from holdfast.model import budget as money
from holdfast.model import events as e
from holdfast.model.crash_suspects import is_unclaimed
from holdfast.model.limits import ROWS_PER_PAGE_MAX
from holdfast.model.mailbox import Mail
from holdfast.model.side_effects import DECIDED, CallStatus, quiet_at
from holdfast.model.stall_report import arrange_report
from holdfast.model.states import TERMINAL, MailKind, WaitReason
from holdfast.store.ports.jobs import Jobs


class Approval(msgspec.Struct, frozen=True):
    """An approval request, and its decision if there is one. `is_abandoned`: the code no longer waits for it."""

    at: int
    asked: e.ApprovalRequested
    decided: e.ApprovalDecided | None = None
    is_abandoned: bool = False


async def list_needs(
    jobs: Jobs, namespace: str, load: Callable[[str], Awaitable[Loaded]]
) -> tuple[Need, ...]:
    """All decisions in the namespace that wait for a person, longest waiting first."""
    needs: list[Need] = []
    page = await jobs.list_needing_person(namespace, limit=ROWS_PER_PAGE_MAX)
    while page:
        for job_id in page:
            needs += [need for need in needs_of(await load(job_id)) if need.person]
        page = await jobs.list_needing_person(namespace, limit=ROWS_PER_PAGE_MAX, after=page[-1])
    return tuple(sorted(needs, key=lambda need: (need.since, need.job_id, need.step_key or "")))


def needs_of(job: Loaded) -> Iterator[Need]:
    """What this job waits for, decisions of a person first."""
    if job.head.status in TERMINAL:
        return
    yield from _uncertain(job)
    yield from _approvals(job)
    yield from question_needs(job)
    if is_unclaimed(job.head, job.facts[-1].at, job.now):
        yield _unclaimed(job)
        return
    match job.head.wait_reason:
        case WaitReason.DRIFT:
            at, parked = _newest(job, e.JobParked)
            yield _held(job, at, "Code no longer matches the journal", parked.report)
        case WaitReason.STALLED:
            at, stalled = _newest(job, e.JobStalled)
            report = arrange_report(stalled.report)
            yield _held(job, at, f"No progress: {report['why']}", report)
        case WaitReason.DEAD_LETTER:
            at, _ = _newest(job, e.JobDeadLettered)
            causes = find_causes(job)
            yield _held(job, at, summarize_causes(causes), causes)
        case WaitReason.RESTORE_REVIEW:
            summary = "Store restored from a backup: calls that the job made after the backup are not in its journal"
            yield _held(job, job.facts[-1].at, summary, None)
        case WaitReason.BUDGET:
            yield _spent(job)
        case WaitReason.TIMER:
            yield _waits(job, "a timer", due_at=job.head.wake_at)
        case WaitReason.SIGNAL:
            yield _waits(job, "a signal", ("holdfast signal {job} NAME --data '{{…}}'",))
        case WaitReason.CHILD:
            children = ", ".join(sorted(open_children(job)))
            yield _waits(job, f"child jobs: {children}" if children else "child jobs")
        case WaitReason.JOINED:
            yield _waits(job, f"the turn before it in session {job.head.session_id}")
        case _:
            pass


_HELD: Final = {
    WaitReason.DRIFT: (
        "holdfast resume {job} --why '…'",
        "holdfast resume {job} --accept --why '…'",
        "holdfast cancel {job}",
    ),
    WaitReason.STALLED: ("holdfast resume {job} --why '…'", "holdfast cancel {job}"),
    WaitReason.DEAD_LETTER: (
        "holdfast dead requeue {job} --why '…'",
        "holdfast dead discard {job} --why '…'",
    ),
    WaitReason.RESTORE_REVIEW: ("holdfast resume {job} --why '…'", "holdfast cancel {job}"),
}


def _held(job: Loaded, at: int, summary: str, evidence: Any) -> Need:
    reason = job.head.wait_reason
    assert reason is not None
    return Need(
        job_id=job.head.job_id,
        job_kind=job.head.kind,
        job_status=job.head.status,
        reason=reason,
        since=at,
        what=summary,
        evidence=evidence,
        commands=_filled(job, _HELD[reason]),
    )


def _unclaimed(job: Loaded) -> Need:
    queue = shlex.quote(job.head.queue)
    return Need(
        job_id=job.head.job_id,
        job_kind=job.head.kind,
        job_status=job.head.status,
        reason=WaitReason.SUSPECT,
        since=job.facts[-1].at,
        what="Suspected of crashing its workers; waits for a worker that can run it in a process of its own",
        evidence=find_causes(job),
        commands=(f"holdfast worker YOUR_MODULE --queue {queue}", *_filled(job, ("holdfast cancel {job}",))),
    )


def _waits(
    job: Loaded,
    summary: str,
    commands: tuple[str, ...] = (),
    *,
    person: bool = False,
    due_at: int | None = None,
) -> Need:
    reason = job.head.wait_reason
    assert reason is not None
    return Need(
        job_id=job.head.job_id,
        job_kind=job.head.kind,
        job_status=job.head.status,
        reason=reason,
        since=job.facts[-1].at,
        what=summary,
        person=person,
        due_at=due_at,
        commands=_filled(job, commands),
    )


def find_budget_stop(job: Loaded) -> e.BudgetReached | None:
    """The budget limit that the job waits for."""
    if job.head.wait_reason is not WaitReason.BUDGET:
        return None
    stop: e.BudgetReached = _newest(job, e.BudgetReached)[1]
    return stop


def _spent(job: Loaded) -> Need:
    stopped = find_budget_stop(job)
    assert stopped is not None
    limit, spent = stopped.limit, int(stopped.spent or 0)
    used = (
        f"{money.show(limit, spent)} of {money.show(limit, stopped.allowed)} {money.WORDS.get(limit, limit)}"
    )
    whose = "Budget" if stopped.budget_id == job.head.job_id else f"Budget of {stopped.budget_id}"
    more = shlex.quote(money.format_amount(limit, max(2 * stopped.allowed, spent + 1)))
    raises = f"holdfast raise {{job}} {money.OPTIONS.get(limit, limit)} {more} --why '…'"
    return _waits(job, f"{whose} used up: {used}", (raises, "holdfast cancel {job}"), person=True)


def _filled(job: Loaded, commands: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(command.format(job=shlex.quote(job.head.job_id)) for command in commands)


def _uncertain(job: Loaded) -> Iterator[Need]:
    for (step_key, generation), call in job.job.calls.items():
        if call.status is CallStatus.UNCERTAIN:
            need = uncertain_need(job, step_key, generation)
            if word_on(job, need) is None:
                yield need


def uncertain_need(job: Loaded, step_key: str, generation: int) -> Need:
    """A call of unknown outcome with its arguments, and why the outcome is unknown."""
    intent, doubt = None, None
    for fact in job.facts:
        match fact.event:
            case e.ToolCalled() if _is(fact.event, step_key, generation):
                intent = fact.event
            case e.ToolUncertain() if _is(fact.event, step_key, generation):
                doubt = fact
    assert intent is not None
    assert doubt is not None
    assert isinstance(doubt.event, e.ToolUncertain)
    start = f"holdfast reconcile {shlex.quote(job.head.job_id)} {shlex.quote(step_key)}"
    options = ("--happened --result @file", "--not-happened", "--skip", "--fail")
    return Need(
        job_id=job.head.job_id,
        job_kind=job.head.kind,
        job_status=job.head.status,
        reason=WaitReason.RECONCILE,
        since=doubt.at,
        what=f"Outcome unknown: {intent.tool}",
        step_key=step_key,
        generation=generation,
        tool=intent.tool,
        effect=intent.effect,
        args=intent.args,
        args_digest=intent.args_digest,
        key=intent.key,
        allowed_at=quiet_at(intent.start_by, intent.longest_call_us),
        evidence=doubt.event.why,
        error=doubt.event.error,
        commands=tuple(f"{start} {option} --why '…'" for option in options),
    )


def _is(event: e.ToolCalled | e.ToolUncertain, step_key: str, generation: int) -> bool:
    return (event.step_key, event.generation) == (step_key, generation)


def word_on(job: Loaded, need: Need) -> Mail | None:
    """The decision about this call that is unread in the job's mailbox."""
    for mail in job.letters:
        body = mail.body
        if mail.kind is not MailKind.RECONCILE or mail.sent_at < need.since or not isinstance(body, dict):
            continue
        place = (body.get("step_key"), body.get("generation", 0))
        if place == (need.step_key, need.generation) and body.get("decision") in DECIDED:
            return mail
    return None


def answer_to(job: Loaded, approval_id: str) -> Mail | None:
    """The decision about this approval that is unread in the job's mailbox."""
    for mail in job.letters:
        body = mail.body if isinstance(mail.body, dict) else {}
        if mail.kind is MailKind.APPROVAL and body.get("approval_id") == approval_id:
            return mail
    return None


def approvals_of(job: Loaded) -> dict[str, Approval]:
    """Every approval that the job requested, by its id."""
    approvals: dict[str, Approval] = {}
    for fact in job.facts:
        match fact.event:
            case e.ApprovalRequested():
                approvals[fact.event.approval_id] = Approval(fact.at, fact.event)
            case e.ApprovalDecided() if fact.event.approval_id in approvals:
                approval_request = approvals[fact.event.approval_id]
                approvals[fact.event.approval_id] = msgspec.structs.replace(
                    approval_request, decided=fact.event
                )
            case e.CallCancelled(step_key=step_key, generation=generation):
                _abandon(
                    approvals,
                    lambda approval_request: (
                        (approval_request.step_key, approval_request.generation) == (step_key, generation)
                    ),
                )
            case e.CheckpointSaved():
                _abandon(approvals, lambda _asked: True)
            case e.JobRequeued(rerun=rerun) if rerun:
                # The code may repeat calls that it gave up because another failed, under the same approval.
                for name, approval in approvals.items():
                    approvals[name] = msgspec.structs.replace(approval, is_abandoned=False)
            case _:
                pass
    return approvals


def _abandon(approvals: dict[str, Approval], fits: Callable[[e.ApprovalRequested], bool]) -> None:
    for name, approval in approvals.items():
        if fits(approval.asked):
            approvals[name] = msgspec.structs.replace(approval, is_abandoned=True)


def _approvals(job: Loaded) -> Iterator[Need]:
    for approval_id, approval in approvals_of(job).items():
        if approval.decided is not None or approval.is_abandoned or answer_to(job, approval_id) is not None:
            continue
        request = approval.asked
        tool = getattr(request, "tool", "") or request.step_key
        yield Need(
            job_id=job.head.job_id,
            job_kind=job.head.kind,
            job_status=job.head.status,
            reason=WaitReason.APPROVAL,
            since=approval.at,
            what=f"Approval needed: {tool}",
            step_key=request.step_key,
            tool=tool,
            args=getattr(request, "args", None),
            args_digest=request.args_digest,
            approval_id=approval_id,
            due_at=request.expires_at,
            commands=(
                f"holdfast approve {shlex.quote(approval_id)}",
                f"holdfast deny {shlex.quote(approval_id)} --why '…'",
            ),
        )


def find_causes(job: Loaded) -> list[Any]:
    """The causes that ended each attempt of a job, oldest first."""
    return causes_of((fact.at, fact.event) for fact in job.facts)


def open_children(job: Loaded) -> set[str]:
    """Children whose start is in the journal and whose end is not."""
    started = {fact.event.child_job_id for fact in job.facts if isinstance(fact.event, e.ChildStarted)}
    finished = {fact.event.child_job_id for fact in job.facts if isinstance(fact.event, e.ChildFinished)}
    return started - finished


def _newest(job: Loaded, kind: type[Any]) -> tuple[int, Any]:
    """The last event of this type and its instant: the event that put the job into its state."""
    fact = next(fact for fact in reversed(job.facts) if isinstance(fact.event, kind))
    return fact.at, fact.event
