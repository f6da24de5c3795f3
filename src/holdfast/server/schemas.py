"""What is asked and what is answered, as types. Names are the words of the glossary; instants are microseconds.

Answers that the client gives already are its own records. What is asked refuses a field it does not know, so a typing
error is told and not passed over.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from holdfast.client.records import EventView
from holdfast.model.inbox import Delivery, InboxBatch, SlotPolicy
from holdfast.model.jobs import DEFAULT_QUEUE
from holdfast.model.limits import (
    EVENTS_PER_PAGE_MAX,
    INTEGER_MAX,
    NAME_LENGTH_MAX,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    PRIORITY_MIN,
    ROWS_PER_PAGE_DEFAULT,
    ROWS_PER_PAGE_MAX,
)
from holdfast.model.session import SessionNode, Usage
from holdfast.model.states import WaitReason
from holdfast.server.settings import WAIT_MS_MAX

# Told in the document, checked by the model: what is wrong with a name is one error, however it came.
Name = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": NAME_LENGTH_MAX})]
Whole = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
Limit = Annotated[int, Meta(ge=1, le=ROWS_PER_PAGE_MAX)]


class Asks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something asked, in a body or in a query."""


# ── queries ───────────────────────────────────────────────────────────────────────────────────────


class Nothing(Asks, frozen=True, kw_only=True):
    """No questions."""


class Paged(Asks, frozen=True, kw_only=True):
    limit: Limit = ROWS_PER_PAGE_DEFAULT
    cursor: str | None = None


class Narrowed(Asks, frozen=True, kw_only=True):
    """Which jobs. A status may be spelled as other systems do, and several are parted by commas. `since` and `until`
    are about when a job was made; `text` is looked for in its id, kind, session id and request key."""

    status: str | None = None
    wait_reason: WaitReason | None = None
    kind: Name | None = None
    queue: Name | None = None
    session_id: Name | None = None
    parent_job_id: Name | None = None
    since: Whole | None = None
    until: Whole | None = None
    text: Name | None = None


class WhichJobs(Narrowed, frozen=True, kw_only=True):
    limit: Limit = ROWS_PER_PAGE_DEFAULT
    cursor: str | None = None


class OneJob(Asks, frozen=True, kw_only=True):
    """`wait_ms`: how long the answer may wait for the job to end."""

    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)] = 0


class WhichEvents(Asks, frozen=True, kw_only=True):
    after: Whole = 0
    limit: Annotated[int, Meta(ge=1, le=EVENTS_PER_PAGE_MAX)] = EVENTS_PER_PAGE_MAX


class WhichChunks(Asks, frozen=True, kw_only=True):
    """`after` is the cursor of the last chunk one has, for clients that cannot send `Last-Event-ID`."""

    after: str | None = None
    stream: Name | None = None


class WhichGraph(Asks, frozen=True, kw_only=True):
    graph: Literal["full", "active", "none"] = "full"


# ── bodies ────────────────────────────────────────────────────────────────────────────────────────


class NewJob(Asks, frozen=True, kw_only=True):
    """A message to an agent. Its id or its `Idempotency-Key` is its idempotency key: sent again, it is the same job."""

    kind: Name
    input: Any = None
    queue: Name = DEFAULT_QUEUE
    priority: Annotated[int, Meta(ge=PRIORITY_MIN, le=PRIORITY_MAX)] = PRIORITY_DEFAULT
    id: Name | None = None
    request_key: Name | None = None
    session_id: Name | None = None
    ready_at: Whole = 0


class Word(Asks, frozen=True, kw_only=True):
    """A command to a job: its reason and its author. The operation id may be sent as `Idempotency-Key` instead."""

    why: str = ""
    by: str = ""
    operation_id: Name | None = None


class Signal(Asks, frozen=True, kw_only=True):
    name: Name
    body: Any = None
    by: str = ""
    operation_id: Name | None = None


class Answering(Asks, frozen=True, kw_only=True):
    """The answer to a question of a job: a value, or text as a person typed it."""

    answer: Any
    question_id: Name | None = None
    by: str = ""
    operation_id: Name | None = None


class Resuming(Word, frozen=True, kw_only=True):
    choice: str = "continue"


class Reconciling(Asks, frozen=True, kw_only=True):
    """Decision about a call of unknown outcome: `happened`, `not_happened`, `skip`, `fail` or `relaunch`."""

    decision: str
    why: str
    by: str
    result: Any = None
    generation: Whole | None = None
    operation_id: Name | None = None


class Deciding(Word, frozen=True, kw_only=True):
    """Decision about an approval. `step_key`: the call, if the id is a job's."""

    step_key: str | None = None


class Limits(Asks, frozen=True, kw_only=True):
    """Totals, in exact units."""

    usd_micros: Whole | None = None
    tokens: Whole | None = None
    tool_calls: Whole | None = None
    wall_us: Whole | None = None
    depth: Whole | None = None
    fan_out: Whole | None = None


class Raising(Asks, frozen=True, kw_only=True):
    limits: Limits
    by: str
    why: str = ""
    budget_id: Name | None = None
    operation_id: Name | None = None


class Forking(Asks, frozen=True, kw_only=True):
    """A fork. `at` is the first step that the new job runs itself, or the number of an event. Without `input` it is the
    original's. `edits` replace results of reads and models before it, by step key."""

    at: str | int
    input: Any = msgspec.UNSET
    edits: dict[str, Any] = {}
    by: str = ""
    why: str = ""
    id: Name | None = None
    request_key: Name | None = None
    queue: Name | None = None
    priority: Annotated[int, Meta(ge=PRIORITY_MIN, le=PRIORITY_MAX)] | None = None


class NewItem(Asks, frozen=True, kw_only=True):
    kind: Name
    payload: Any = None


class NewBatch(Asks, frozen=True, kw_only=True):
    """Input for a session. Its `Idempotency-Key` is the batch's source key."""

    items: Annotated[tuple[NewItem, ...], Meta(min_length=1)]
    delivery: Delivery = Delivery.EARLIEST_SAFE_BOUNDARY
    slot: SlotPolicy = SlotPolicy.EXCLUSIVE
    merge_key: str = "never"
    available_at: Whole = 0


# ── answers ───────────────────────────────────────────────────────────────────────────────────────


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Health check. `degraded` lists problems; the store's tier says what it survives."""

    status: Literal["ok", "degraded", "draining", "unavailable"]
    timestamp: str
    tier: str | None = None
    degraded: tuple[str, ...] = ()


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """Journal events in order. `next` is the `after` of the next page; None at the end of the journal."""

    items: tuple[EventView, ...]
    next: int | None


class FrameShape(msgspec.Struct, frozen=True, kw_only=True):
    frame_id: str
    previous_frame_id: str | None
    status: str
    reason: str
    created_at: int


class SessionShape(msgspec.Struct, frozen=True, kw_only=True):
    """A session as of its head: nodes as requested, the ids from root to leaf, and its usage."""

    session_id: str
    revision: int
    leaf_node_id: str | None
    active_path: tuple[str, ...]
    nodes: tuple[SessionNode, ...]
    frames: tuple[FrameShape, ...]
    frame_id: str | None
    turn_index: int
    checkpoint_ref: str
    usage: tuple[Usage, ...]


class Batches(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[InboxBatch, ...]
