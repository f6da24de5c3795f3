"""The facts a journal is made of: a closed list, one frozen type each.

A fact is stored as (type, version, body): the type is a column, the body is inert JSON, and nothing in a body can name
a class, a module or a function. Decoding looks the type up in `EVENTS` and checks every field; an unknown type or a
version from the future is refused with both versions named, never guessed.

The hash chain
    hash(n) = SHA-256( hash(n-1) ‖ SHA-256(body) ‖ "job/seq/type/version/fence/at" )

covers the *digest* of a body, not the body, so that a payload can be erased and its chain still verifies. The head
(seq and hash of the last event) therefore stands for the whole history: two journals with the same head are the same,
which is how a writer recognises its own append after a lost reply.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

import msgspec

from holdfast.errors import InvalidPayload, SchemaMismatch, StoreCorrupt
from holdfast.model import canonical

Json = Any
GENESIS: Final = bytes(32)
_OTHER_VERSION: Final = "Read this job with the version of Holdfast that wrote it, or a newer one."


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fact. Subclasses add fields with defaults only, and raise `version` when the meaning changes."""

    type: ClassVar[str]
    version: ClassVar[int] = 1


class JobCreated(Event, frozen=True):
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


class JobRequeued(Event, frozen=True):
    type = "job_requeued"
    why: str = ""
    by: str | None = None


class JobDeadLettered(Event, frozen=True):
    type = "job_dead_lettered"
    causes: tuple[Json, ...] = ()


class JobCompleted(Event, frozen=True):
    type = "job_completed"
    output: Json = None


class JobFailed(Event, frozen=True):
    type = "job_failed"
    error: Json = None


class JobCancelled(Event, frozen=True):
    type = "job_cancelled"
    why: str = ""


class CancelRequested(Event, frozen=True):
    type = "cancel_requested"
    by: str = ""
    why: str = ""
    mail_seq: int = 0


class PlanGenerated(Event, frozen=True):
    type = "plan_generated"
    plan_id: str
    plan: Json


class NodeStarted(Event, frozen=True):
    type = "node_started"
    plan_id: str
    node: str


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
    """The code stopped waiting for a call: a timeout, a sibling that failed. A result before it was never seen."""

    type = "call_cancelled"
    step_key: str
    args_digest: str
    generation: int = 0


class LlmRequested(Event, frozen=True):
    type = "llm_requested"
    step_key: str
    model: str
    messages: tuple[str, ...] = ()
    args_digest: str = ""
    attempt: int = 1


class LlmResponded(Event, frozen=True):
    type = "llm_responded"
    step_key: str
    response: Json = None
    usage: Json = None
    attempt: int = 1


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
    type = "tool_returned"
    step_key: str
    generation: int = 0
    result: Json = None
    adopted: bool = False


class ToolFailed(Event, frozen=True):
    type = "tool_failed"
    step_key: str
    generation: int = 0
    outcome: str = "refused"
    error: Json = None


class ToolUncertain(Event, frozen=True):
    type = "tool_uncertain"
    step_key: str
    generation: int = 0
    why: str = ""


class ToolReconciled(Event, frozen=True):
    type = "tool_reconciled"
    step_key: str
    decision: str
    by: str
    why: str
    generation: int = 0
    result: Json = None


class CheckpointSaved(Event, frozen=True):
    type = "checkpoint_saved"
    ordinal: int
    state: Json = None
    evidence: Json = None


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


class TimerFired(Event, frozen=True):
    type = "timer_fired"
    step_key: str


class SignalReceived(Event, frozen=True):
    type = "signal_received"
    name: str
    mail_seq: int
    body: Json = None


class ApprovalRequested(Event, frozen=True):
    type = "approval_requested"
    approval_id: str
    step_key: str
    args_digest: str
    expires_at: int | None = None


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


class ChildFinished(Event, frozen=True):
    type = "child_finished"
    step_key: str
    child_job_id: str
    status: str


class BudgetReached(Event, frozen=True):
    type = "budget_reached"
    limit: str
    spent: Json = None


class StoreRestored(Event, frozen=True):
    """Written into every unfinished journal by a restore: what came after the backup is forgotten."""

    type = "store_restored"
    epoch: int
    backup: str = ""


def _closed_list(base: type[Event]) -> dict[str, type[Event]]:
    return {kind.type: kind for kind in base.__subclasses__()}


EVENTS: Final[Mapping[str, type[Event]]] = _closed_list(Event)


class Head(msgspec.Struct, frozen=True):
    """The last event's place and hash: a whole history in forty bytes."""

    seq: int
    hash: bytes


EMPTY: Final = Head(0, GENESIS)


class SealedEvent(msgspec.Struct, frozen=True):
    """An event as it lies in the journal: placed, timed, fenced, hashed. `body` is None once it was erased."""

    seq: int
    type: str
    version: int
    fence: int
    at: int
    body: bytes | None
    body_digest: bytes
    hash: bytes


def body_of(event: Event) -> bytes:
    """The canonical body; fields that hold their default are left out, so adding a field changes no old hash."""
    fields = zip(_fields(type(event)), msgspec.structs.astuple(event), strict=True)
    return canonical.encode(
        {name: value for (name, default), value in fields if value is not default and value != default}
    )


@functools.cache
def _fields(kind: type[Event]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default) for field in msgspec.structs.fields(kind))


def chain(
    previous: bytes, body_digest: bytes, job_id: str, seq: int, type_: str, version: int, fence: int, at: int
) -> bytes:
    """The hash of one event, given the hash before it."""
    place = f"{job_id}/{seq}/{type_}/{version}/{fence}/{at}"
    return hashlib.sha256(previous + body_digest + place.encode()).digest()


def seal(
    job_id: str, head: Head, fence: int, at: int, events: Iterable[Event]
) -> tuple[tuple[SealedEvent, ...], Head]:
    """The events placed after `head`, and the head they lead to."""
    sealed = []
    for event in events:
        body = body_of(event)
        digest = hashlib.sha256(body).digest()
        seq = head.seq + 1
        hash_ = chain(head.hash, digest, job_id, seq, event.type, event.version, fence, at)
        sealed.append(SealedEvent(seq, event.type, event.version, fence, at, body, digest, hash_))
        head = Head(seq, hash_)
    return tuple(sealed), head


def unseal(sealed: SealedEvent) -> Event:
    """The fact inside; refuses what this version of Holdfast does not know, and a body that is not the sealed one.

    Bytes that fit their digest are the ones `body_of` wrote, so they are read without being checked a second time.
    """
    kind = EVENTS.get(sealed.type)
    if kind is None or not 1 <= sealed.version <= kind.version:
        known = f"up to version {kind.version}" if kind else "no event of that type"
        msg = f"event {sealed.seq} is {sealed.type} version {sealed.version}; this Holdfast knows {known}"
        raise SchemaMismatch(msg, hint=_OTHER_VERSION)
    if sealed.body is None:
        msg = f"the body of event {sealed.seq} ({sealed.type}) was erased"
        raise InvalidPayload(
            msg, hint="Its digest and the chain are still there; the content is gone on purpose."
        )
    if hashlib.sha256(sealed.body).digest() != sealed.body_digest:
        msg = f"the body of event {sealed.seq} ({sealed.type}) is not the one that was sealed"
        raise StoreCorrupt(msg)
    try:
        return msgspec.convert(canonical.decode_stored(sealed.body), kind)
    except (msgspec.ValidationError, InvalidPayload, RecursionError) as error:
        msg = f"event {sealed.seq} is not a {sealed.type} version {sealed.version} as this Holdfast knows it: {error}"
        raise SchemaMismatch(msg, hint=_OTHER_VERSION) from None


def first_break(job_id: str, events: Iterable[SealedEvent], head: Head = EMPTY) -> int | None:
    """The seq at which the chain no longer holds, or None: gaps, changed bodies and forged links all show here."""
    for event in events:
        digest = event.body_digest if event.body is None else hashlib.sha256(event.body).digest()
        expected = chain(
            head.hash, digest, job_id, event.seq, event.type, event.version, event.fence, event.at
        )
        if event.seq != head.seq + 1 or digest != event.body_digest or expected != event.hash:
            return event.seq
        head = Head(event.seq, event.hash)
    return None
