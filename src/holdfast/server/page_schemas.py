"""Requests and responses for the page only: the caller, counts, bulk commands, a job at an earlier event, time
series."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from holdfast.api.job_records import EventView, Span, SpanKind
from holdfast.api.requests import CommandRequest, Name, OperationRequest, PageRequest, Whole
from holdfast.model.ledger import CallRow
from holdfast.store.ports.attachments import AttachmentIntent

BULK_MAX = 500


class Who(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of the caller. `by`: the server's token, an API key, or neither."""

    name: str
    namespace: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    by: Literal["token", "key", "nobody"]
    loopback: bool
    version: str
    now: int


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of matching jobs; statuses and reasons without jobs are left out."""

    total: int
    by_status: dict[str, int]
    by_wait_reason: dict[str, int]


# ── many at once ──────────────────────────────────────────────────────────────────────────────────


class Many(CommandRequest, frozen=True, kw_only=True):
    """The same command to many jobs, one after the other."""

    ids: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=BULK_MAX)]


class BulkOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Outcome for one job: accepted, or the code and the message of the error."""

    job_id: str
    accepted: bool
    at_once: bool = False
    repeated: bool = False
    code: str = ""
    detail: str = ""


class ToldMany(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes in the order of the request."""

    items: tuple[BulkOutcome, ...]
    accepted: int


# ── a job as it was ───────────────────────────────────────────────────────────────────────────────


class WhichTrace(OperationRequest, frozen=True, kw_only=True):
    """`seq`: the job as it was when this was its newest event. `bodies=none` leaves out what calls said."""

    seq: Annotated[int, Meta(ge=1)] | None = None
    bodies: Literal["all", "none"] = "all"


class WhichStep(OperationRequest, frozen=True, kw_only=True):
    generation: Whole = 0


class AskedOfModel(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a model: its settings and messages. `follows` names an earlier request that it continues, if its
    messages are stored there; an erased part is None."""

    model: str
    settings: Any
    messages: tuple[Any, ...]
    follows: str = ""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step: its span, ledger row, model request and events."""

    span: Span
    args_digest: str
    ledger: CallRow | None
    request: AskedOfModel | None
    events: tuple[EventView, ...]


class WhereToFork(OperationRequest, frozen=True, kw_only=True):
    """A step that would be done anew, or the number of the first event that would not be taken over; neither is the end
    of the journal."""

    step: str | None = None
    seq: Annotated[int, Meta(ge=1)] | None = None


class ForkedStep(msgspec.Struct, frozen=True, kw_only=True):
    step_key: str
    generation: int
    kind: SpanKind
    name: str
    effect: str
    seq: int
    end_seq: int | None


class ForkPreview(msgspec.Struct, frozen=True, kw_only=True):
    """Preview of a fork: calls whose results it shares, and calls of the original that it makes itself, if its code
    still makes them. `refused` says why the fork is not possible, and `hint` where one would be."""

    before: int
    taken: tuple[ForkedStep, ...]
    anew: tuple[ForkedStep, ...]
    refused: str = ""
    hint: str = ""


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


class WhichSessions(PageRequest, frozen=True, kw_only=True):
    text: Name | None = None


class AttachmentList(msgspec.Struct, frozen=True, kw_only=True):
    """Attachments of a session; `uri` locates the bytes."""

    items: tuple[AttachmentIntent, ...]
