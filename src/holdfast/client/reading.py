"""One job, read: its head and its journal, as a view and as a list of what it needs. Nothing here waits or writes."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.client.plans import plans_of
from holdfast.client.questions import question_needs
from holdfast.client.records import BudgetView, Checked, EventView, JobView, Need
from holdfast.engine.causes import causes_of
from holdfast.engine.verify.journals import judge_alone
from holdfast.model import budget as money
from holdfast.model import canonical, fold
from holdfast.model import events as e
from holdfast.model.budget import SHARED, Account
from holdfast.model.chain import SealedEvent, unseal
from holdfast.model.effects import DECIDED, CallStatus, quiet_at
from holdfast.model.jobs import JobHead
from holdfast.model.mail import Mail
from holdfast.model.states import TERMINAL, MailKind, Status, WaitReason

FOR_A_PERSON: Final = (
    WaitReason.RECONCILE,
    WaitReason.APPROVAL,
    WaitReason.DRIFT,
    WaitReason.DEAD_LETTER,
    WaitReason.RESTORE_REVIEW,
    WaitReason.BUDGET,
)
"""Reasons that only a person ends."""


class Fact(msgspec.Struct, frozen=True):
    """An event and its place in the journal."""

    seq: int
    at: int
    fence: int
    event: e.Event


class Loaded(msgspec.Struct, frozen=True):
    """Everything the store knows about a job at about one instant; the journal may be a little ahead of the head."""

    head: JobHead
    facts: tuple[Fact, ...]
    job: fold.Job
    letters: tuple[Mail, ...] = ()
    accounts: tuple[Account, ...] = ()

    @property
    def created(self) -> e.JobCreated:
        """What was asked for: the first fact of every journal."""
        first = self.facts[0].event
        assert isinstance(first, e.JobCreated), "the fold has refused any other"
        return first

    @property
    def budgets(self) -> tuple[str, ...]:
        """The budgets that count for it, the outermost first."""
        created = self.created
        return created.budgets if created.budget is None else (*created.budgets, self.head.job_id)


class Approval(msgspec.Struct, frozen=True):
    """A question to a person, and its answer if there is one."""

    at: int
    asked: e.ApprovalRequested
    decided: e.ApprovalDecided | None = None


def loaded(head: JobHead, sealed: Sequence[SealedEvent], letters: Sequence[Mail] = ()) -> Loaded:
    facts = tuple(Fact(one.seq, one.at, one.fence, unseal(one)) for one in sealed)
    job = fold.fold((fact.seq, fact.fence, fact.event) for fact in facts)
    return Loaded(head, facts, job, tuple(letters))


def shown(sealed: SealedEvent) -> EventView:
    """The event as it lies there, whether or not this version knows its type."""
    return EventView(
        seq=sealed.seq,
        type=sealed.type,
        version=sealed.version,
        at=sealed.at,
        fence=sealed.fence,
        body=None if sealed.body is None else canonical.decode_stored(sealed.body),
        hash=sealed.hash.hex(),
    )


def judged(head: JobHead, sealed: Sequence[SealedEvent]) -> Checked:
    """The journal recomputed from its first event, and the head against it."""
    found = tuple(f"{one.invariant}: {one.detail}" for one in judge_alone(head, list(sealed)))
    if not found and (len(sealed), sealed[-1].hash) != (head.head_seq, head.head_hash):
        found = (f"I5: the head is at event {head.head_seq}, the journal at {len(sealed)}",)
    return Checked(head.job_id, len(sealed), found)


def view_of(job: Loaded) -> JobView:
    """The job as a client sees it."""
    head, created, told = job.head, job.created, job.job
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
        output=told.output,
        error=_error(job),
        attempts=head.attempts,
        takeovers=head.takeovers,
        claims=told.claims,
        worker=head.lease_owner or None if head.status is Status.RUNNING else None,
        last_worker=last.worker if isinstance(last, e.JobClaimed) else None,
        cancel_requested=told.cancel_requested,
        cancelled_by=cancel.by,
        cancelled_why=cancel.why,
        unread=0 if head.status in TERMINAL else max(head.mail_seq - told.mail_seq, 0),
        events=len(job.facts),
        steps=len(told.steps),
        calls=dict(Counter(str(call.status) for call in told.calls.values())),
        needs=tuple(needs_of(job)),
        plans=plans_of(((fact.at, fact.event) for fact in job.facts), over=head.status in TERMINAL),
        budgets=tuple(map(_budget, job.accounts)),
    )


def _budget(account: Account) -> BudgetView:
    return BudgetView(
        budget_id=account.budget_id,
        since=account.created_at,
        limits=money.told(account.limits),
        spent={limit: getattr(account, limit) for limit in SHARED},
    )


def _error(job: Loaded) -> Any:
    if job.job.error is not None or job.head.wait_reason is not WaitReason.DEAD_LETTER:
        return job.job.error
    return _causes(job)


def _causes(job: Loaded) -> list[Any]:
    return causes_of([fact.event for fact in job.facts])


# ── what it needs ─────────────────────────────────────────────────────────────────────────────────


def needs_of(job: Loaded) -> Iterator[Need]:
    """What this job waits for, a person's business first."""
    if job.head.status in TERMINAL:
        return
    yield from _uncertain(job)
    yield from _approvals(job)
    yield from question_needs(job)
    match job.head.wait_reason:
        case WaitReason.DRIFT:
            at, parked = _newest(job, e.JobParked)
            yield _held(job, at, "its code does not fit its journal any more", parked.report)
        case WaitReason.DEAD_LETTER:
            at, dead = _newest(job, e.JobDeadLettered)
            yield _held(job, at, _why_dead(dead), _causes(job))
        case WaitReason.RESTORE_REVIEW:
            what = "the store was restored from a backup: what the job did afterwards is forgotten"
            yield _held(job, job.facts[-1].at, what, None)
        case WaitReason.BUDGET:
            yield _spent(job)
        case WaitReason.TIMER:
            yield _waits(job, "a timer", due_at=job.head.wake_at)
        case WaitReason.SIGNAL:
            yield _waits(job, "a signal", ("holdfast signal {job} NAME --data '{{…}}'",))
        case WaitReason.CHILD:
            children = ", ".join(sorted(open_children(job)))
            yield _waits(job, f"its children: {children}" if children else "its children")
        case WaitReason.JOINED:
            yield _waits(job, f"the turn in front of it in session {job.head.session_id}")
        case _:
            pass


_HELD: Final = {
    WaitReason.DRIFT: (
        "holdfast resume {job} --why '…'",
        "holdfast resume {job} --accept --why '…'",
        "holdfast cancel {job}",
    ),
    WaitReason.DEAD_LETTER: (
        "holdfast dead requeue {job} --why '…'",
        "holdfast dead discard {job} --why '…'",
    ),
    WaitReason.RESTORE_REVIEW: ("holdfast resume {job} --why '…'", "holdfast cancel {job}"),
}


def _held(job: Loaded, at: int, what: str, evidence: Any) -> Need:
    reason = job.head.wait_reason
    assert reason is not None
    return Need(
        job_id=job.head.job_id,
        job_kind=job.head.kind,
        reason=reason,
        since=at,
        what=what,
        evidence=evidence,
        commands=_filled(job, _HELD[reason]),
    )


def _why_dead(dead: e.JobDeadLettered) -> str:
    cause = dead.causes[0] if dead.causes else None
    why = cause.get("why") if isinstance(cause, dict) else None
    return f"it used up its attempts: {why}" if why else "it used up its attempts"


def _waits(
    job: Loaded, what: str, commands: tuple[str, ...] = (), *, person: bool = False, due_at: int | None = None
) -> Need:
    reason = job.head.wait_reason
    assert reason is not None
    return Need(
        job_id=job.head.job_id,
        job_kind=job.head.kind,
        reason=reason,
        since=job.facts[-1].at,
        what=what,
        person=person,
        due_at=due_at,
        commands=_filled(job, commands),
    )


def stopped_by(job: Loaded) -> e.BudgetReached | None:
    """The limit that the job sleeps over."""
    if job.head.wait_reason is not WaitReason.BUDGET:
        return None
    found: e.BudgetReached = _newest(job, e.BudgetReached)[1]
    return found


def _spent(job: Loaded) -> Need:
    stopped = stopped_by(job)
    assert stopped is not None
    limit, spent = stopped.limit, int(stopped.spent or 0)
    used = (
        f"{money.show(limit, spent)} of {money.show(limit, stopped.allowed)} {money.WORDS.get(limit, limit)}"
    )
    whose = "its budget" if stopped.budget_id == job.head.job_id else f"the budget of {stopped.budget_id}"
    more = shlex.quote(money.written(limit, max(2 * stopped.allowed, spent + 1)))
    raises = f"holdfast raise {{job}} {money.OPTIONS.get(limit, limit)} {more} --why '…'"
    return _waits(job, f"{whose} is used up: {used}", (raises, "holdfast cancel {job}"), person=True)


def _filled(job: Loaded, commands: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(command.format(job=shlex.quote(job.head.job_id)) for command in commands)


def _uncertain(job: Loaded) -> Iterator[Need]:
    for (step_key, generation), call in job.job.calls.items():
        if call.status is CallStatus.UNCERTAIN:
            need = uncertain_need(job, step_key, generation)
            if word_on(job, need) is None:
                yield need


def uncertain_need(job: Loaded, step_key: str, generation: int) -> Need:
    """An uncertain call with its arguments, and why nobody knows."""
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
    words = ("--happened --result @file", "--not-happened", "--skip", "--fail")
    return Need(
        job_id=job.head.job_id,
        job_kind=job.head.kind,
        reason=WaitReason.RECONCILE,
        since=doubt.at,
        what=f"nobody knows whether {intent.tool} happened",
        step_key=step_key,
        generation=generation,
        tool=intent.tool,
        effect=intent.effect,
        args=intent.args,
        args_digest=intent.args_digest,
        key=intent.key,
        allowed_at=quiet_at(intent.start_by, intent.longest_call_us),
        evidence=doubt.event.why,
        commands=tuple(f"{start} {word} --why '…'" for word in words),
    )


def _is(event: e.ToolCalled | e.ToolUncertain, step_key: str, generation: int) -> bool:
    return (event.step_key, event.generation) == (step_key, generation)


def word_on(job: Loaded, need: Need) -> Mail | None:
    """What somebody has said about this uncertain call since it is one, though the job has not read it yet."""
    for letter in job.letters:
        body = letter.body
        if letter.kind is not MailKind.RECONCILE or letter.sent_at < need.since or not isinstance(body, dict):
            continue
        place = (body.get("step_key"), body.get("generation", 0))
        if place == (need.step_key, need.generation) and body.get("decision") in DECIDED:
            return letter
    return None


def answer_to(job: Loaded, approval_id: str) -> Mail | None:
    """What somebody has said about this approval, though the job has not read it yet."""
    for letter in job.letters:
        body = letter.body if isinstance(letter.body, dict) else {}
        if letter.kind is MailKind.APPROVAL and body.get("approval_id") == approval_id:
            return letter
    return None


def approvals_of(job: Loaded) -> dict[str, Approval]:
    """Every question that the job asked, by its id."""
    found: dict[str, Approval] = {}
    for fact in job.facts:
        match fact.event:
            case e.ApprovalRequested():
                found[fact.event.approval_id] = Approval(fact.at, fact.event)
            case e.ApprovalDecided() if fact.event.approval_id in found:
                asked = found[fact.event.approval_id]
                found[fact.event.approval_id] = Approval(asked.at, asked.asked, fact.event)
    return found


def _approvals(job: Loaded) -> Iterator[Need]:
    for approval_id, approval in approvals_of(job).items():
        if approval.decided is not None or answer_to(job, approval_id) is not None:
            continue
        asked = approval.asked
        tool = getattr(asked, "tool", "") or asked.step_key
        yield Need(
            job_id=job.head.job_id,
            job_kind=job.head.kind,
            reason=WaitReason.APPROVAL,
            since=approval.at,
            what=f"{tool} needs a person's yes",
            step_key=asked.step_key,
            tool=tool,
            args=getattr(asked, "args", None),
            args_digest=asked.args_digest,
            approval_id=approval_id,
            due_at=asked.expires_at,
            commands=(
                f"holdfast approve {shlex.quote(approval_id)}",
                f"holdfast deny {shlex.quote(approval_id)} --why '…'",
            ),
        )


def open_children(job: Loaded) -> set[str]:
    """Children that the journal has seen start and not finish."""
    started = {fact.event.child_job_id for fact in job.facts if isinstance(fact.event, e.ChildStarted)}
    finished = {fact.event.child_job_id for fact in job.facts if isinstance(fact.event, e.ChildFinished)}
    return started - finished


def _newest(job: Loaded, kind: type[Any]) -> tuple[int, Any]:
    """The last fact of this type and its instant: the one that put the job where it is."""
    fact = next(fact for fact in reversed(job.facts) if isinstance(fact.event, kind))
    return fact.at, fact.event
