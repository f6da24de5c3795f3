"""Records that a client returns: jobs, needs, timelines. Instants are microseconds since 1970."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from holdfast.api.work_records import AgentEntryView
from holdfast.model.configured_agents import Configuration
from holdfast.model.states import Status, WaitReason
from holdfast.model.worker_presence import SessionKind, WorkerState


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A command to a job, stored durably under its operation id.

    `at_once`: it is in the job's journal already. Otherwise it is in the job's mailbox, and the next worker reads it
    before anything else. `repeated`: this operation was accepted before, and nothing was written now.
    """

    job_id: str
    operation_id: str
    at_once: bool
    repeated: bool = False


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """One journal event. `body` is None once it was erased."""

    seq: int
    type: str
    version: int
    at: int
    fence: int
    body: Any
    hash: str


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Journal events in order. `next` is the `after` of the next page; None at the end of the journal."""

    items: tuple[EventView, ...]
    next: int | None


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a job waits for, and the commands that continue it.

    For a call of unknown outcome and for an approval, `args` are the canonical arguments and `key` is what the receiver
    saw; `evidence` is why the outcome is unknown, and `error` is what the call raised, with its traceback. For a parked
    or stalled job `evidence` is the report, for a dead letter its causes, for a suspect the deaths of its workers, for
    a question the JSON schema of an answer. In the report of a stalled job `at` is the line of the author's code where
    a task waits. `job_status` tells whether the job waits, or still runs other calls.
    `allowed_at`: the decision "did not happen" is rejected before this instant.
    """

    job_id: str
    job_kind: str
    job_status: Status = Status.WAITING
    reason: WaitReason
    since: int
    what: str
    person: bool = True
    step_key: str | None = None
    generation: int = 0
    tool: str = ""
    effect: str = ""
    args: Any = None
    args_digest: str = ""
    key: str = ""
    approval_id: str | None = None
    question_id: str | None = None
    due_at: int | None = None
    allowed_at: int | None = None
    evidence: Any = None
    error: Any = None
    commands: tuple[str, ...] = ()


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One node of a plan. `state`: `to come`, `open`, how it came out, or `not reached` when the job is over."""

    name: str
    tool: str
    after: tuple[str, ...] = ()
    state: str


class PlanView(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that a job follows, with its nodes in their order."""

    plan_id: str
    at: int
    nodes: tuple[NodeView, ...]

    @property
    def done(self) -> int:
        return sum(node.state == "succeeded" for node in self.nodes)


class BudgetView(msgspec.Struct, frozen=True, kw_only=True):
    """A budget that applies to a job: its limits and what the whole tree of jobs has used, in exact units."""

    budget_id: str
    since: int
    limits: dict[str, int]
    spent: dict[str, int]


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job: its head and its journal, read together.

    `worker` holds it now; `attempts` and `takeovers` count failed attempts and takeovers without progress. `error` is
    what it failed with, or the causes of a dead letter; of a job that is tried again, the error of its last attempt.
    """

    job_id: str
    namespace: str
    kind: str
    queue: str
    priority: int
    status: Status
    wait_reason: WaitReason | None
    wake_at: int | None
    request_key: str | None
    parent_job_id: str | None
    session_id: str | None
    created_at: int
    started_at: int | None
    changed_at: int
    ended_at: int | None
    input: Any
    output: Any
    error: Any
    attempts: int
    takeovers: int
    claims: int
    worker: str | None
    last_worker: str | None
    cancel_requested: bool
    cancelled_by: str
    cancelled_why: str
    unread: int
    events: int
    steps: int
    calls: dict[str, int]
    needs: tuple[Need, ...]
    plans: tuple[PlanView, ...] = ()
    budgets: tuple[BudgetView, ...] = ()

    @property
    def over(self) -> bool:
        return self.ended_at is not None


class SpanKind(StrEnum):
    READ = "read"
    EFFECT = "effect"
    MODEL = "model"
    SLEEP = "sleep"
    APPROVAL = "approval"
    CHILD = "child"
    NODE = "node"


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One call from its beginning to its outcome.

    A read leaves no trace before its result: then `start_known` is False, and `start_at` is the instant before which it
    cannot have begun. `end_at` None: it has no outcome yet; `end_seq` is the event that told it. `sent_at` are the
    instants of its intents, one for each try under this key.
    """

    kind: SpanKind
    name: str
    step_key: str
    scope: tuple[str, ...]
    seq: int
    start_at: int
    end_at: int | None
    outcome: str
    start_known: bool = True
    effect: str = ""
    key: str = ""
    attempt: int = 1
    generation: int = 0
    worker: str = ""
    sent_at: tuple[int, ...] = ()
    args: Any = None
    result: Any = None
    error: Any = None
    notes: tuple[str, ...] = ()
    usage: Any = None
    """What a model's answer used up: tokens, and money if its price is known."""
    end_seq: int | None = None


class SeamKind(StrEnum):
    CREATED = "created"
    CLAIMED = "claimed"
    TAKEOVER = "takeover"
    RELEASED = "released"
    WAITING = "waiting"
    PARKED = "parked"
    STALLED = "stalled"
    DEAD_LETTER = "dead_letter"
    REQUEUED = "requeued"
    CANCEL_REQUESTED = "cancel_requested"
    SIGNAL = "signal"
    COMMIT = "commit"
    RESTORED = "restored"
    ENDED = "ended"
    OTHER = "other"


class Seam(msgspec.Struct, frozen=True, kw_only=True):
    """A change of worker or status. `until`: the end of the wait that it began."""

    kind: SeamKind
    seq: int
    at: int
    text: str
    worker: str = ""
    fence: int = 0
    until: int | None = None
    error: Any = None
    """What an attempt failed with, and its traceback."""


class Note(msgspec.Struct, frozen=True):
    """One sentence about what recovery did, and why."""

    seq: int
    at: int
    text: str
    step_key: str | None = None


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """The timeline of a job. Spans are ordered by their start, seams and notes by the journal."""

    job_id: str
    kind: str
    status: str
    start_at: int
    end_at: int
    over: bool
    spans: tuple[Span, ...]
    seams: tuple[Seam, ...]
    notes: tuple[Note, ...]
    plans: tuple[PlanView, ...] = ()


class Checked(msgspec.Struct, frozen=True):
    """Verification of one job's journal from its first event; no violations if it is intact."""

    job_id: str
    events: int
    violations: tuple[str, ...]


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that takes messages. A configured agent has an id of its own; one that is `declared` by code goes by its
    kind and has no configuration. `session_id` is the conversation of a message that names none."""

    agent_id: str
    name: str
    kind: str
    session_id: str
    declared: bool = False
    configuration: Configuration | None = None
    created_at: int | None = None
    entry: AgentEntryView | None = None
    """The registry entry of an external agent, which takes work and no messages."""


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """A stored message and the job that answers it. `repeated`: it was accepted before."""

    job_id: str
    session_id: str
    agent_id: str
    repeated: bool = False


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as of its last heartbeat. `worker` is its full name, as in journals, `label` the short one; `holds`
    counts its jobs. `drain_asked_at`: when a drain was requested, which it reads within seconds if it `drains` on
    request."""

    worker: str
    label: str
    state: WorkerState
    host: str
    pid: int
    identity: str
    kinds: tuple[str, ...]
    sessions: tuple[SessionKind, ...]
    queues: tuple[str, ...]
    capabilities: tuple[str, ...]
    concurrency: int
    holds: int
    draining: bool
    started_at: int
    seen_at: int
    drains: bool = False
    drain_asked_at: int | None = None


class Stats(msgspec.Struct, frozen=True, kw_only=True, rename={"by_project": "byProject"}):
    """Counts of jobs by status and in total; of agents and work items by project."""

    totals: dict[str, int]
    by_project: dict[str, dict[str, int]]


class Walked(StrEnum):
    """What a replay does with a recorded call: it returns its result, raises its error, waits, recovers, or the code
    has given the call up."""

    RETURNS = "returns"
    RAISES = "raises"
    GIVEN_UP = "given_up"
    WAITS = "waits"
    RECOVERS = "recovers"


class WalkedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded call and what a replay does with it. `seq` is the event of its outcome, None if it has none."""

    step_key: str
    kind: SpanKind
    name: str
    seq: int | None
    at: int | None
    answer: Walked
    effect: str
    generation: int = 0
    attempt: int = 1
    args: Any = None
    result: Any = None
    error: Any = None


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """Preview of a replay: the job's input, the state of its last commit, and each call since.

    `from_seq`: the commit that a resume starts from, 0 if it starts from the top.
    """

    job_id: str
    kind: str
    status: Status
    input: Any
    from_seq: int
    state: Any
    steps: tuple[WalkedStep, ...]
    output: Any
    error: Any


class MessageReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a message, in its own turn or in the turn that it joined (`turn_job_id`)."""

    job_id: str
    turn_job_id: str
    session_id: str
    node_id: str
    text: str
    message: Any
