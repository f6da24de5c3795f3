"""The facts a journal is made of: a closed list, one frozen type each.

A fact is stored as (type, version, body): the type is a column, the body is inert JSON, and nothing in a body can name
a class, a module or a function. Decoding looks the type up in `EVENTS` and checks every field; an unknown type or a
version from the future is refused with both versions named, never guessed. How facts are chained is in `hash_chain`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.model.event import Event as Event
from holdfast.model.event import Json as Json
from holdfast.model.kit_events import CheckpointBegun as CheckpointBegun
from holdfast.model.kit_events import CheckpointCommitted as CheckpointCommitted
from holdfast.model.kit_events import CheckpointsDropped as CheckpointsDropped
from holdfast.model.kit_events import CheckpointVerified as CheckpointVerified


class JobCreated(Event, frozen=True):
    """The job exists. `edited`: whose word it is, in a fork, what some of the reads and models before it had said.
    `ready_at`: no worker claims it before."""

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
    """The code waits for something that no journal knows and that has not come for long. `report`: where it stands."""

    type = "job_stalled"
    report: Json


class JobRequeued(Event, frozen=True):
    """Another attempt. `rerun` are the calls whose failure ended the last one: their records no longer count.

    A person who asked for it did so under an `operation_id`; asking twice under one is asking once. `accepted`: that
    person has read the report of a parked job, and what it names is not asked for again.
    `takeover` says that nobody gave the job back: its lease ran out, and `holder` is whose it was.
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
    """Whoever holds the job says how far it is, in percent. Said by agents that live elsewhere."""

    type = "progress_reported"
    progress: int
    note: str = ""


class PlanGenerated(Event, frozen=True):
    """The plan that is followed from here on. What was called before it in its scope, the planner did to make it."""

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
    """The code stopped waiting for a call: a timeout, a sibling that failed. A result before it was never seen.

    `made`: a read of a job with a budget that was under way.
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
    """An attempt of a call failed; at `next_at` the call is made again, or its receiver is asked what became of it.
    `attempt` counts those that failed, of `attempts` in all. `sent_nothing`: the receiver certainly got nothing.
    `probe`: it was the receiver that could not be asked."""

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
    """A request to a model, by the digests of its parts: what it says besides its messages, then the messages.

    `after` names an earlier request of this journal (`step key@generation`) that this one begins with: then only the
    messages that are new are listed, so a long conversation grows by what was said and not by its square. A second
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
    """Repurchase: a request to a model that has an answer on record is made again, because its identity is another one.

    `generation` is that of the recorded request, `args_digest` that of the new one. `fields` says where they differ;
    none, if the recorded request cannot be read any more.
    """

    type = "llm_repurchased"
    step_key: str
    model: str
    fields: tuple[str, ...] = ()
    args_digest: str = ""
    generation: int = 0


class LlmResponded(Event, frozen=True):
    """What the model said, and what it cost. `error` instead of a response: what the provider said against it."""

    type = "llm_responded"
    step_key: str
    response: Json = None
    usage: Json = None
    attempt: int = 1
    generation: int = 0
    error: Json = None


class ToolCalled(Event, frozen=True):
    """The intent: durable before the first byte leaves."""

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
    """It happened. `error` says why its result could not be kept, when it could not."""

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
    """A person has to say whether it happened. `error` is what the call raised; without one its worker died."""

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
    """`carries`: what of the journal before it still counts, see `checkpoint_snapshot`. None: it is read whole."""

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
    """A wait is over: with the signal of this letter, or with none because its time was up."""

    type = "signal_taken"
    step_key: str
    name: str
    mail_seq: int | None = None
    args_digest: str = ""


class QuestionAsked(Event, frozen=True):
    """Somebody is asked, and answers with a signal named after the question. `schema`: what an answer looks like."""

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
    """Written into every unfinished journal by a restore: what came after the backup is forgotten."""

    type = "store_restored"
    epoch: int
    backup: str = ""


def _closed_list(base: type[Event]) -> dict[str, type[Event]]:
    return {kind.type: kind for kind in base.__subclasses__()}


EVENTS: Final[Mapping[str, type[Event]]] = _closed_list(Event)
