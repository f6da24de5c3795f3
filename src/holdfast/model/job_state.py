"""Job state: `fold(events)` computes a job from its journal.

Nothing about a job is stored that cannot be computed again from its events; the rows beside the journal (head, ledger)
are this fold, updated in the transaction that appends. `verify` recomputes it and compares.

`step` is the whole state machine: it takes the state and one more event, and either updates the state or raises an
error that says why the journal may not continue with this event. It never raises on a journal that Holdfast wrote;
`Ungrammatical` therefore always means damage, a forged journal, or a bug.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.model import events as e
from holdfast.model.checkpoint_snapshot import CheckpointSnapshot
from holdfast.model.side_effects import CALL_MOVES, DECIDED, CallStatus, Outcome
from holdfast.model.states import TERMINAL, Status, WaitReason, next_status


class Ungrammatical(ValueError):
    """The journal has an event that cannot follow the ones before it."""


class CallState(msgspec.Struct, frozen=True):
    """A tool call as the journal records it: one per step key and generation."""

    tool: str
    effect: str
    status: CallStatus
    key: str
    args_digest: str
    attempt: int
    intent_seq: int


class JobState(msgspec.Struct):
    """The state of a job, computed from its journal. `step` updates it in place; treat it as read-only elsewhere."""

    status: Status | None = None
    wait_reason: WaitReason | None = None
    wake_at: int | None = None
    kind: str = ""
    session_id: str | None = None
    seq: int = 0
    fence: int = 0
    claims: int = 0
    takeovers: int = 0
    commits: int = 0
    mail_seq: int = 0
    cancel_requested: bool = False
    calls: dict[tuple[str, int], CallState] = msgspec.field(default_factory=dict)
    steps: set[tuple[str, int]] = msgspec.field(default_factory=set)
    cancelled: set[tuple[str, int]] = msgspec.field(default_factory=set)
    replies: dict[tuple[str, int], bool] = msgspec.field(default_factory=dict)
    plans: set[str] = msgspec.field(default_factory=set)
    nodes: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)
    timers: dict[str, int] = msgspec.field(default_factory=dict)
    children: dict[str, str] = msgspec.field(default_factory=dict)
    output: e.Json = None
    error: e.Json = None

    @property
    def over(self) -> bool:
        return self.status in TERMINAL


def fold(events: Iterable[tuple[int, int, e.Event]]) -> JobState:
    """The state of a job after these (seq, fence, event) tuples."""
    job = JobState()
    for seq, fence, event in events:
        step(job, seq, fence, event)
    return job


def restore_job_state(
    seq: int, fence: int, commit: e.CheckpointSaved, carried: CheckpointSnapshot
) -> JobState:
    """The state right before this commit, as far as later events depend on it: step keys restart at a commit."""
    return JobState(
        status=Status.RUNNING,
        seq=seq - 1,
        fence=fence,
        claims=carried.claims,
        commits=commit.ordinal - 1,
        mail_seq=carried.mail_seq,
        children={step_key: child_job_id for child_job_id, step_key in carried.children.items()},
    )


def step(job: JobState, seq: int, fence: int, event: e.Event) -> None:
    """Apply one more event, or raise Ungrammatical and leave the state as it was."""
    if (
        type(event) is e.StepFinished
        and job.status is Status.RUNNING
        and fence == job.fence
        and seq == job.seq + 1
        and not job.cancelled
        and (place := (event.step_key, event.generation)) not in job.steps
    ):
        # Most events of a long journal: the status stays, and `_finish` would accept the event.
        job.steps.add(place)
        job.takeovers, job.seq = 0, seq
        return
    if seq != job.seq + 1:
        raise Ungrammatical(f"event {seq} follows event {job.seq}")
    if fence < job.fence:
        raise Ungrammatical(f"fence fell from {job.fence} to {fence} at event {seq}")
    if fence == job.fence and event.type == e.JobClaimed.type:
        raise Ungrammatical(f"the claim at event {seq} did not raise the fence {fence}")
    status = next_status(job.status, event.type)
    if status is None:
        raise Ungrammatical(f"{event.type} at event {seq} cannot follow status {job.status}")
    _apply(job, seq, event)
    if status is not Status.WAITING:
        job.wait_reason, job.wake_at = None, None
    if status in TERMINAL:
        job.timers.clear()
    job.status, job.seq, job.fence = status, seq, fence


def _apply(job: JobState, seq: int, event: e.Event) -> None:
    match event:
        case e.StepFinished():
            _finish(job, seq, event)
        case e.JobCreated():
            job.kind, job.session_id = event.kind, event.session_id
        case e.JobClaimed():
            job.claims += 1
            job.takeovers = job.takeovers + 1 if event.takeover else job.takeovers
        case e.JobWaiting():
            job.wait_reason, job.wake_at = _parse_reason(event.reason, seq), event.wake_at
            job.mail_seq = max(job.mail_seq, event.mail_seq)
        case e.JobParked():
            job.wait_reason, job.wake_at = WaitReason.DRIFT, None
        case e.JobStalled():
            job.wait_reason, job.wake_at = WaitReason.STALLED, None
        case e.JobDeadLettered():
            job.wait_reason, job.wake_at = WaitReason.DEAD_LETTER, None
        case e.JobRequeued():
            job.takeovers = job.takeovers + 1 if event.takeover else 0
            job.mail_seq = max(job.mail_seq, event.mail_seq)
        case e.JobCompleted() | e.JobFailure() if job.cancel_requested:
            raise Ungrammatical(f"{event.type} at event {seq} after the cancel")
        case e.JobCompleted():
            job.output = event.output
        case e.JobFailure():
            job.error = event.error
        case e.CancelRequested():
            job.cancel_requested = True
            job.mail_seq = max(job.mail_seq, event.mail_seq)
        case _:
            _apply_inner(job, seq, event)


def _apply_inner(job: JobState, seq: int, event: e.Event) -> None:
    """Apply events of a running job that do not change its status."""
    match event:
        case e.CallCancelled():
            _give_up(job, seq, event)
        case e.LlmRequested():
            if job.replies.setdefault((event.step_key, event.generation), False):
                raise Ungrammatical(f"model call {event.step_key} requested at event {seq} after its reply")
        case e.LlmResponded():
            if job.replies.get((event.step_key, event.generation)) is not False:
                raise Ungrammatical(
                    f"reply {event.step_key} at event {seq} was not asked for, or is a second one"
                )
            job.replies[event.step_key, event.generation] = True
            job.takeovers = 0
        case e.PlanGenerated():
            if event.plan_id in job.plans:
                raise Ungrammatical(f"plan {event.plan_id} generated twice, again at event {seq}")
            job.plans.add(event.plan_id)
        case e.NodeStarted() | e.NodeFinished():
            _apply_node(job, seq, event)
        case e.ToolCalled():
            _intend(job, seq, event)
        case e.ToolReturned():
            _settle(job, seq, event.step_key, event.generation, CallStatus.SUCCEEDED)
            job.takeovers = 0
        case e.ToolFailed():
            _settle(job, seq, event.step_key, event.generation, CallStatus.FAILED)
            job.takeovers = 0
        case e.ToolUncertain():
            _settle(job, seq, event.step_key, event.generation, CallStatus.UNCERTAIN)
        case e.ToolReconciled():
            _settle(job, seq, event.step_key, event.generation, _parse_decision(event.decision, seq))
            job.mail_seq = max(job.mail_seq, event.mail_seq)
        case e.CheckpointSaved() | e.TurnCommitted():
            if event.ordinal != job.commits + 1:
                raise Ungrammatical(f"commit {event.ordinal} follows commit {job.commits} at event {seq}")
            job.commits = event.ordinal
        case e.TimerSet():
            job.timers[event.step_key] = event.due_at
        case e.TimerFired():
            if job.timers.pop(event.step_key, None) is None:
                raise Ungrammatical(f"timer {event.step_key} fired at event {seq} without being set")
        case e.ChildStarted():
            job.children[event.step_key] = event.child_job_id
        case e.ChildFinished():
            if job.children.get(event.step_key) != event.child_job_id:
                raise Ungrammatical(
                    f"child {event.child_job_id} finished at event {seq} without being started"
                )
            job.mail_seq = max(job.mail_seq, event.mail_seq)
        case e.SignalReceived() | e.ApprovalDecided() | e.BudgetRaised():
            job.mail_seq = max(job.mail_seq, event.mail_seq)
        case e.SignalTaken():
            job.timers.pop(event.step_key, None)
            job.takeovers = 0
        case e.ProgressReported():
            job.takeovers = 0
        case _:
            pass


def _finish(job: JobState, seq: int, event: e.StepFinished) -> None:
    """A step finishes once, and not after the code gave it up."""
    place = (event.step_key, event.generation)
    if job.cancelled:
        _check_open(job, seq, place)
    if place in job.steps:
        raise Ungrammatical(f"step {_format_place(place)} finished twice, again at event {seq}")
    job.steps.add(place)
    job.takeovers = 0


def _give_up(job: JobState, seq: int, event: e.CallCancelled) -> None:
    """The code gives a call up once."""
    place = (event.step_key, event.generation)
    _check_open(job, seq, place)
    job.cancelled.add(place)
    job.timers.pop(event.step_key, None)


def _check_open(job: JobState, seq: int, place: tuple[str, int]) -> None:
    if place in job.cancelled:
        raise Ungrammatical(
            f"step {_format_place(place)} has an end at event {seq} after the code had given it up"
        )


def _format_place(place: tuple[str, int]) -> str:
    step_key, generation = place
    return step_key if generation == 0 else f"{step_key} (generation {generation})"


STARTED = "started"


def _parse_reason(text: str, seq: int) -> WaitReason:
    try:
        return WaitReason(text)
    except ValueError:
        raise Ungrammatical(f"the job waits for {text!r} at event {seq}, which is no reason") from None


def _parse_decision(decision: str, seq: int) -> CallStatus:
    if decision not in DECIDED:
        raise Ungrammatical(f"a call was reconciled as {decision!r} at event {seq}, which is no decision")
    return DECIDED[decision]


def _apply_node(job: JobState, seq: int, event: e.NodeStarted | e.NodeFinished) -> None:
    """A node may start again after a crash or a failure, never after it succeeded; it finishes once per start."""
    place = (event.plan_id, event.node)
    before = job.nodes.get(place)
    if event.plan_id not in job.plans:
        raise Ungrammatical(
            f"{event.type} at event {seq} is of plan {event.plan_id}, which was not generated"
        )
    if isinstance(event, e.NodeStarted):
        if before == Outcome.SUCCEEDED:
            raise Ungrammatical(f"node {place} started at event {seq} after it had succeeded")
        job.nodes[place] = STARTED
    else:
        if before != STARTED:
            raise Ungrammatical(f"node {place} finished at event {seq} without being started")
        job.nodes[place] = event.outcome


def _intend(job: JobState, seq: int, event: e.ToolCalled) -> None:
    if job.cancel_requested:
        raise Ungrammatical(f"an intent at event {seq} after the cancel")
    place = (event.step_key, event.generation)
    before = job.calls.get(place)
    _check_call(before, CallStatus.PREPARED, seq, place)
    made_with = (event.tool, event.effect, event.key, event.args_digest)
    if before is not None and (before.tool, before.effect, before.key, before.args_digest) != made_with:
        raise Ungrammatical(f"call {place} changed its tool, class, key or arguments at event {seq}")
    intent_seq = seq if before is None else before.intent_seq
    job.calls[place] = CallState(
        event.tool, event.effect, CallStatus.PREPARED, event.key, event.args_digest, event.attempt, intent_seq
    )


def _settle(job: JobState, seq: int, step_key: str, generation: int, status: CallStatus) -> None:
    place = (step_key, generation)
    call = job.calls.get(place)
    if call is None:
        raise Ungrammatical(f"call {place} has an outcome at event {seq} and no intent")
    _check_call(call, status, seq, place)
    job.calls[place] = msgspec.structs.replace(call, status=status)


def _check_call(before: CallState | None, after: CallStatus, seq: int, place: tuple[str, int]) -> None:
    status = None if before is None else before.status
    if after not in CALL_MOVES[status]:
        raise Ungrammatical(f"call {place} cannot go from {status} to {after} at event {seq}")
