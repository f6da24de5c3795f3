"""What the page asks for beyond what a program needs: who asks, how many, many at once, a job as it was, numbers."""

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
    """Who asks, as this server sees it. `by`: the token of its start, a key, or nothing at all."""

    name: str
    namespace: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    by: Literal["token", "key", "nobody"]
    loopback: bool
    version: str
    now: int


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs fit; a status or a reason that none has is not there."""

    total: int
    by_status: dict[str, int]
    by_wait_reason: dict[str, int]


# ── many at once ──────────────────────────────────────────────────────────────────────────────────


class Many(CommandRequest, frozen=True, kw_only=True):
    """The same word to many jobs, one after the other."""

    ids: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=BULK_MAX)]


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of it for one of them: accepted, or the code and the sentence of what stands against it."""

    job_id: str
    accepted: bool
    at_once: bool = False
    repeated: bool = False
    code: str = ""
    detail: str = ""


class ToldMany(msgspec.Struct, frozen=True, kw_only=True):
    """In the order in which they were named."""

    items: tuple[Told, ...]
    accepted: int


# ── a job as it was ───────────────────────────────────────────────────────────────────────────────


class WhichTrace(OperationRequest, frozen=True, kw_only=True):
    """`seq`: the job as it was when this was its newest event. `bodies=none` leaves out what calls said."""

    seq: Annotated[int, Meta(ge=1)] | None = None
    bodies: Literal["all", "none"] = "all"


class WhichStep(OperationRequest, frozen=True, kw_only=True):
    generation: Whole = 0


class AskedOfModel(msgspec.Struct, frozen=True, kw_only=True):
    """What a model was asked: its settings and its messages, read from where they are kept. `follows` names what they
    follow, if that is kept elsewhere; a part that was erased is None."""

    model: str
    settings: Any
    messages: tuple[Any, ...]
    follows: str = ""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One call whole: its span, its row in the ledger, what a model was asked, and its events."""

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
    """What a fork there would have: calls whose results it takes over, and calls of the original that it makes anew, if
    its code asks for them. `refused` says why it cannot be, and `hint` where it could."""

    before: int
    taken: tuple[ForkedStep, ...]
    anew: tuple[ForkedStep, ...]
    refused: str = ""
    hint: str = ""


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


class WhichSessions(PageRequest, frozen=True, kw_only=True):
    text: Name | None = None


class AttachmentList(msgspec.Struct, frozen=True, kw_only=True):
    """What was announced for a session; the bytes are where `uri` says."""

    items: tuple[AttachmentIntent, ...]
