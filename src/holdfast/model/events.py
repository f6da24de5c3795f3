"""Events of a journal: a closed list, one frozen type each.

An event is stored as (type, version, body): the type is a column, the body is inert JSON, and nothing in a body can
name a class, a module or a function. Decoding looks the type up in `EVENTS` and checks every field; it rejects an
unknown type or a version from the future with an error that names both versions. `hash_chain` links the events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.model.event_base import Event as Event
from holdfast.model.event_base import Json as Json
from holdfast.model.kit_events import CheckpointBegun as CheckpointBegun
from holdfast.model.kit_events import CheckpointCommitted as CheckpointCommitted
from holdfast.model.kit_events import CheckpointsDropped as CheckpointsDropped
from holdfast.model.kit_events import CheckpointVerified as CheckpointVerified


class JobCreated(Event, frozen=True):
    """The job exists. `edited`, in a fork: the changed results of reads and models, who changed them and why.
    `ready_at`: no worker claims the job before this time."""

    type = "job_created"
    kind: str
    input: Json = None
    queue: str = "default"
    priority: int = 5
    request_key: str | None = None
    parent_job_id: str | None = None
    parent_step_key: str | None = None
    session_id: str | None = None
    code_version: str | None = None
    python_version: str | None = None
    forked_from: str | None = None
    forked_at_seq: int | None = None
    budget: Json = None
    budgets: tuple[str, ...] = ()
    depth: int = 0
    edited: Json = None
    ready_at: int = 0


class JobClaimed(Event, frozen=True):
    type = "job_claimed"
    worker: str
    takeover: bool = False


class JobReleased(Event, frozen=True):
    type = "job_released"
    why: str = "drained"


class JobWaiting(Event, frozen=True):
    type = "job_waiting"
    reason: str
    wake_at: int | None = None
    mail_seq: int = 0


class JobParked(Event, frozen=True):
    type = "job_parked"
    report: Json = None


class JobStalled(Event, frozen=True):
    """The code waits for something that the journal does not record, and has made no progress for long. `report`: the
    line where each task waits."""

    type = "job_stalled"
    report: Json


class JobRequeued(Event, frozen=True):
    """Another attempt. `rerun` lists the calls whose failure ended the last attempt: their records no longer count.

    `operation_id` is set when a person requested it; two requests with the same id count once. `accepted`: the person
    has read the report of a parked job, and the code need not repeat the calls that it lists. `takeover`: the lease ran
    out without being given back; `holder` held it.
    """

    type = "job_requeued"
    why: str = ""
    by: str | None = None
    error: Json = None
    rerun: tuple[str, ...] = ()
    accepted: bool = False
    mail_seq: int = 0
    operation_id: str = ""
    takeover: bool = False
    holder: str | None = None


class JobDeadLettered(Event, frozen=True):
    type = "job_dead_lettered"
    causes: tuple[Json, ...] = ()


class JobCompleted(Event, frozen=True):
    type = "job_completed"
    output: Json = None


class JobFailure(Event, frozen=True):
    type = "job_failed"
    error: Json = None


class JobCancellation(Event, frozen=True):
    type = "job_cancelled"
    why: str = ""


class CancelRequested(Event, frozen=True):
    type = "cancel_requested"
    by: str = ""
    why: str = ""
    mail_seq: int = 0
    operation_id: str = ""


class ProgressReported(Event, frozen=True):
    """An external agent that holds the job reports its progress in percent."""

    type = "progress_reported"
    progress: int
    note: str = ""


class PlanGenerated(Event, frozen=True):
    """The plan that the job follows from here on. Calls before it in its scope were made by the planner to create the
    plan."""

    type = "plan_generated"
    plan_id: str
    plan: Json
    step_key: str = ""


class NodeStarted(Event, frozen=True):
    type = "node_started"
    plan_id: str
    node: str
    scope: str = ""


class NodeFinished(Event, frozen=True):
    type = "node_finished"
    plan_id: str
    node: str
    outcome: str = "succeeded"


class StepFinished(Event, frozen=True):
    type = "step_finished"
    step_key: str
    args_digest: str
    outcome: str = "succeeded"
    result: Json = None
    error: Json = None
    generation: int = 0


class CallCancelled(Event, frozen=True):
    """The code stopped waiting for a call: a timeout, or a sibling that failed. A result recorded before this never
    reached the code.

    `made`: the call was a read in progress, in a job with a budget.
    """

    type = "call_cancelled"
    step_key: str
    args_digest: str
    generation: int = 0
    made: bool = False


class CallMoved(Event, frozen=True):
    """A call adopted a record: the code makes the recorded call under another key, because a coroutine was renamed or
    tasks were created in another order. From here on `step_key` stands for `recorded_key`."""

    type = "call_moved"
    step_key: str
    recorded_key: str
    args_digest: str
    generation: int = 0


class CallRetried(Event, frozen=True):
    """An attempt of a call failed; at `next_at` the call is made again, or its receiver is probed. `attempt` counts
    failed attempts, of `attempts` in all. `sent_nothing`: the receiver certainly got nothing. `probe`: the failed
    attempt was one to probe the receiver."""

    type = "call_retried"
    step_key: str
    args_digest: str
    attempt: int
    attempts: int
    next_at: int
    generation: int = 0
    sent_nothing: bool = False
    probe: bool = False
    error: Json = None


class LlmRequested(Event, frozen=True):
    """A request to a model, as digests of its parts: first everything but the messages, then the messages.

    `after` names an earlier request of this journal (`step key@generation`) that this one begins with: then only the
    new messages are listed, so that the journal of a long conversation grows linearly and not quadratically. A second
    attempt is the same request, and lists nothing.
    """

    type = "llm_requested"
    step_key: str
    model: str
    messages: tuple[str, ...] = ()
    args_digest: str = ""
    attempt: int = 1
    generation: int = 0
    after: str = ""


class LlmRepurchased(Event, frozen=True):
    """Repurchase: a model request that has a recorded response is sent again, because its identity has changed.

    `generation` is that of the recorded request, `args_digest` that of the new one. `fields` names where they differ;
    empty if the recorded request can no longer be read.
    """

    type = "llm_repurchased"
    step_key: str
    model: str
    fields: tuple[str, ...] = ()
    args_digest: str = ""
    generation: int = 0


class LlmResponded(Event, frozen=True):
    """The response of a model and its cost. `error` is the provider's error, instead of a response."""

    type = "llm_responded"
    step_key: str
    response: Json = None
    usage: Json = None
    attempt: int = 1
    generation: int = 0
    error: Json = None


class ToolCalled(Event, frozen=True):
    """The intent of a call: durable before the first byte is sent."""

    type = "tool_called"
    step_key: str
    tool: str
    effect: str
    args_digest: str
    key: str
    generation: int = 0
    attempt: int = 1
    args: Json = None
    start_by: int | None = None
    longest_call_us: int | None = None
    approval_id: str | None = None


class ToolReturned(Event, frozen=True):
    """The call happened. `error` says why its result could not be stored, if it could not."""

    type = "tool_returned"
    step_key: str
    generation: int = 0
    result: Json = None
    adopted: bool = False
    error: Json = None


class ToolFailed(Event, frozen=True):
    type = "tool_failed"
    step_key: str
    generation: int = 0
    outcome: str = "refused"
    error: Json = None


class ToolUncertain(Event, frozen=True):
    """A person has to decide whether the call happened. `error` is what the call raised; none if its worker died."""

    type = "tool_uncertain"
    step_key: str
    generation: int = 0
    why: str = ""
    error: Json = None


class ToolReconciled(Event, frozen=True):
    type = "tool_reconciled"
    step_key: str
    decision: str
    by: str
    why: str
    generation: int = 0
    result: Json = None
    mail_seq: int = 0


class CheckpointSaved(Event, frozen=True):
    """A checkpoint. `carries`: the snapshot of the journal before it, see `checkpoint_snapshot`. None: a resume reads
    the whole journal."""

    type = "checkpoint_saved"
    ordinal: int
    state: Json = None
    evidence: Json = None
    carries: Json = None


class TurnCommitted(Event, frozen=True):
    type = "turn_committed"
    session_id: str
    turn_id: str
    ordinal: int
    batches: tuple[str, ...] = ()


class InputsClaimed(Event, frozen=True):
    type = "inputs_claimed"
    claim_id: str
    batches: tuple[str, ...] = ()


class TimerSet(Event, frozen=True):
    type = "timer_set"
    step_key: str
    due_at: int
    args_digest: str = ""


class TimerFired(Event, frozen=True):
    type = "timer_fired"
    step_key: str


class SignalReceived(Event, frozen=True):
    type = "signal_received"
    name: str
    mail_seq: int
    body: Json = None


class SignalTaken(Event, frozen=True):
    """A wait ended: with the signal of this mail number, or without one because it timed out."""

    type = "signal_taken"
    step_key: str
    name: str
    mail_seq: int | None = None
    args_digest: str = ""


class QuestionAsked(Event, frozen=True):
    """A question to a person, who answers with a signal named after the question. `schema`: the JSON schema of an
    answer."""

    type = "question_asked"
    question_id: str
    step_key: str
    question: str
    schema: Json = None
    to: str = ""
    due_at: int | None = None
    args_digest: str = ""


class ApprovalRequested(Event, frozen=True):
    type = "approval_requested"
    approval_id: str
    step_key: str
    args_digest: str
    expires_at: int | None = None
    generation: int = 0
    tool: str = ""
    args: Json = None


class ApprovalDecided(Event, frozen=True):
    type = "approval_decided"
    approval_id: str
    decision: str
    by: str
    why: str = ""
    mail_seq: int = 0


class ChildStarted(Event, frozen=True):
    type = "child_started"
    step_key: str
    child_job_id: str
    args_digest: str = ""
    kind: str = ""
    generation: int = 0


class ChildFinished(Event, frozen=True):
    type = "child_finished"
    step_key: str
    child_job_id: str
    status: str
    result: Json = None
    error: Json = None
    generation: int = 0
    mail_seq: int = 0


class BudgetReached(Event, frozen=True):
    type = "budget_reached"
    limit: str
    spent: Json = None
    allowed: int = 0
    budget_id: str = ""


class BudgetRaised(Event, frozen=True):
    type = "budget_raised"
    budget_id: str
    limits: Json
    by: str
    why: str = ""
    mail_seq: int = 0


class StoreRestored(Event, frozen=True):
    """Written into every unfinished journal by a restore: events after the backup are lost."""

    type = "store_restored"
    epoch: int
    backup: str = ""


def _index_event_types(base: type[Event]) -> dict[str, type[Event]]:
    return {kind.type: kind for kind in base.__subclasses__()}


EVENTS: Final[Mapping[str, type[Event]]] = _index_event_types(Event)
