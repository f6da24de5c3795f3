"""Call checks: rules about the calls in a journal: what was sent, what was returned, and which decision allowed a
repetition.

Our own database cannot see what a receiver did. It can see every order that would have made it do something twice:

    I10   a result, and then the same call again
    I12   an effect sent again while its outcome was unknown
    I13   `uncertain` that ended without a person's decision or the receiver's answer; or that was never reported,
          because the job was suspended during an unsafe call
    I14   one key for two calls, or a key that changed its arguments
    I15   a call under an approval that was not given, not for these arguments, too late, or used before
    I16   a model's reply without a request, or a second one
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from holdfast.engine.verify.journal_view import Facts, Findings, InvariantViolation, PlacedEvent
from holdfast.model import events as e
from holdfast.model.side_effects import DECIDED, SETTLED, CallStatus, Effect

APPROVED: Final = "approved"

_TOLD: Final = {
    e.ToolReturned: CallStatus.SUCCEEDED,
    e.ToolFailed: CallStatus.FAILED,
    e.ToolUncertain: CallStatus.UNCERTAIN,
}

Place = tuple[str, int]


class _Call(msgspec.Struct):
    """A call, as far as the journal has been read."""

    place: Place
    key: str
    args_digest: str
    effect: str
    status: CallStatus
    fence: int
    seq: int

    @property
    def named(self) -> str:
        return _format_call(*self.place)


def check_calls(facts: Facts, sent_at: Mapping[int, int]) -> Findings:
    """Violations in the calls of one journal. `sent_at`: when each message to the job was sent."""
    yield from _check_effects(facts)
    yield from _check_reads(facts)
    yield from _check_approvals(facts, sent_at)
    yield from _check_replies(facts)


def _format_call(step_key: str, generation: int) -> str:
    return f"call {step_key}" if generation == 0 else f"call {step_key} (generation {generation})"


# ── effects ───────────────────────────────────────────────────────────────────────────────────────


def _check_effects(facts: Facts) -> Findings:
    calls: dict[Place, _Call] = {}
    keys: dict[str, Place] = {}
    for fact in facts:
        event = fact.event
        if isinstance(event, e.ToolCalled):
            yield from _check_intent(calls, keys, fact, event)
        elif isinstance(event, e.ToolReturned | e.ToolFailed | e.ToolUncertain | e.ToolReconciled):
            call = calls.get((event.step_key, event.generation))
            if call is not None:  # an outcome without an intent is reported by the fold (I7)
                yield from _check_outcome(call, fact, event)
        elif isinstance(event, e.CallCancelled):
            calls.pop((event.step_key, event.generation), None)
        elif isinstance(event, e.JobWaiting):
            yield from _check_suspension(calls.values(), fact)


def _check_suspension(calls: Iterable[_Call], fact: PlacedEvent) -> Findings:
    for call in calls:
        in_progress = call.status is CallStatus.PREPARED and call.fence == fact.fence
        if in_progress and call.effect == Effect.UNSAFE:
            detail = f"the job goes to sleep at event {fact.seq} while unsafe {call.named} is under way"
            yield InvariantViolation("I13", fact.seq, detail)


def _check_intent(
    calls: dict[Place, _Call], keys: dict[str, Place], fact: PlacedEvent, event: e.ToolCalled
) -> Findings:
    place = (event.step_key, event.generation)
    name = _format_call(*place)
    if keys.setdefault(event.key, place) != place:
        other_name = _format_call(*keys[event.key])
        yield InvariantViolation("I14", fact.seq, f"{name} has at event {fact.seq} the key of {other_name}")
    before = calls.get(place)
    if before is None:
        yield from _check_generation(calls.get((event.step_key, event.generation - 1)), fact, event)
    else:
        if (before.key, before.args_digest) != (event.key, event.args_digest):
            yield InvariantViolation(
                "I14", fact.seq, f"{name} changed its key or arguments at event {fact.seq}"
            )
        yield from _check_repeated_intent(before, fact)
    calls[place] = _Call(
        place, event.key, event.args_digest, event.effect, CallStatus.PREPARED, fact.fence, fact.seq
    )


def _check_repeated_intent(before: _Call, fact: PlacedEvent) -> Findings:
    """Checks a repeated intent of the same generation. A worker that was too late to fire may record a second intent
    itself."""
    if before.status in SETTLED:
        detail = f"{before.named} is sent again at event {fact.seq}, after its result at event {before.seq}"
        yield InvariantViolation("I10", fact.seq, detail)
    elif before.status is CallStatus.UNCERTAIN:
        detail = (
            f"{before.named} has an unknown outcome and is sent again at event {fact.seq} without a decision"
        )
        yield InvariantViolation("I13", fact.seq, detail)
    elif before.effect == Effect.UNSAFE and before.fence != fact.fence:
        detail = f"{before.named} is unsafe and sent again at event {fact.seq}; it may have happened at {before.seq}"
        yield InvariantViolation("I12", fact.seq, detail)


def _check_generation(before: _Call | None, fact: PlacedEvent, event: e.ToolCalled) -> Findings:
    """Checks a new generation. The one before it must have failed for certain, or must have been abandoned."""
    if before is None or before.args_digest != event.args_digest:
        return
    name = _format_call(event.step_key, event.generation)
    if before.status in {CallStatus.SUCCEEDED, CallStatus.SKIPPED}:
        detail = f"{name} is sent at event {fact.seq}, after the result at event {before.seq}"
        yield InvariantViolation("I10", fact.seq, detail)
    elif before.status not in SETTLED:
        detail = f"{name} is sent at event {fact.seq} while {before.named} is {before.status}"
        yield InvariantViolation("I12", fact.seq, detail)


def _check_outcome(
    call: _Call, fact: PlacedEvent, event: e.ToolReturned | e.ToolFailed | e.ToolUncertain | e.ToolReconciled
) -> Findings:
    status = DECIDED.get(event.decision) if isinstance(event, e.ToolReconciled) else _TOLD[type(event)]
    if status is None:
        return  # an unknown decision is reported by the fold (I7)
    if call.status in SETTLED:
        detail = f"{call.named} has an outcome at event {fact.seq}, after its result at event {call.seq}"
        yield InvariantViolation("I10", fact.seq, detail)
        return
    evidence = isinstance(event, e.ToolReconciled) or (isinstance(event, e.ToolReturned) and event.adopted)
    if call.status is CallStatus.UNCERTAIN and not evidence:
        detail = (
            f"{call.named} is uncertain and becomes {status} at event {fact.seq} without a word or evidence"
        )
        yield InvariantViolation("I13", fact.seq, detail)
    call.status, call.seq = status, fact.seq


# ── reads and models ──────────────────────────────────────────────────────────────────────────────


def _check_reads(facts: Facts) -> Findings:
    """A step has one result per generation, and one success per arguments."""
    finished: dict[Place, int] = {}
    succeeded: dict[tuple[str, str], int] = {}
    for fact in facts:
        event = fact.event
        if not isinstance(event, e.StepFinished):
            continue
        name = _format_call(event.step_key, event.generation).replace("call", "step", 1)
        place, question = (event.step_key, event.generation), (event.step_key, event.args_digest)
        first = finished.setdefault(place, fact.seq)
        if first == fact.seq:
            first = succeeded.get(question, fact.seq)
        if first != fact.seq:
            yield InvariantViolation(
                "I10", fact.seq, f"{name} finished at event {first} and again at event {fact.seq}"
            )
        if event.outcome == "succeeded":
            succeeded.setdefault(question, fact.seq)


def _check_replies(facts: Facts) -> Findings:
    """A model's reply answers an attempt that was made, once."""
    requested: dict[tuple[str, int], set[int]] = {}
    answered: dict[tuple[str, int], int] = {}
    for fact in facts:
        event = fact.event
        if not isinstance(event, e.LlmRequested | e.LlmResponded):
            continue
        place = (event.step_key, event.generation)
        if isinstance(event, e.LlmRequested):
            if place in answered:
                detail = f"model call {event.step_key} is made again at event {fact.seq} after its reply"
                yield InvariantViolation("I16", fact.seq, detail)
            requested.setdefault(place, set()).add(event.attempt)
            continue
        if event.attempt not in requested.get(place, ()):
            detail = (
                f"the reply {event.step_key} at event {fact.seq} is of attempt {event.attempt}, never made"
            )
            yield InvariantViolation("I16", fact.seq, detail)
        elif place in answered:
            detail = f"model call {event.step_key} has a second reply at event {fact.seq}"
            yield InvariantViolation("I16", fact.seq, detail)
        answered.setdefault(place, fact.seq)


# ── approvals ─────────────────────────────────────────────────────────────────────────────────────


class _Approval(msgspec.Struct):
    step_key: str
    args_digest: str
    expires_at: int | None
    decisions: list[e.ApprovalDecided] = msgspec.field(default_factory=list)
    too_late: bool = False
    used_by: Place | None = None


def _check_approvals(facts: Facts, sent_at: Mapping[int, int]) -> Findings:
    approvals: dict[str, _Approval] = {}
    for fact in facts:
        match fact.event:
            case e.ApprovalRequested() as request:
                if request.approval_id in approvals:
                    detail = f"approval {request.approval_id} is asked for twice, again at event {fact.seq}"
                    yield InvariantViolation("I15", fact.seq, detail)
                approvals[request.approval_id] = _Approval(
                    request.step_key, request.args_digest, request.expires_at
                )
            case e.ApprovalDecided() as decided:
                approval = approvals.get(decided.approval_id)
                if approval is None:
                    detail = (
                        f"approval {decided.approval_id} is decided at event {fact.seq} and was not asked for"
                    )
                    yield InvariantViolation("I15", fact.seq, detail)
                    continue
                approval.decisions.append(decided)
                decided_at = sent_at.get(decided.mail_seq, fact.at)
                approval.too_late = approval.expires_at is not None and decided_at > approval.expires_at
            case e.ToolCalled(approval_id=str() as approval_id) as called:
                wrong = _find_misuse(approvals.get(approval_id), called)
                if wrong is not None:
                    name = _format_call(called.step_key, called.generation)
                    detail = f"{name} is sent at event {fact.seq} under approval {approval_id}, {wrong}"
                    yield InvariantViolation("I15", fact.seq, detail)


def _find_misuse(approval: _Approval | None, called: e.ToolCalled) -> str | None:
    """Why this call may not be made under this approval. The first call that names an approval uses it up."""
    if approval is None:
        return "which was never asked for"
    place = (called.step_key, called.generation)
    used_by, approval.used_by = approval.used_by, approval.used_by or place
    if (approval.step_key, approval.args_digest) != (called.step_key, called.args_digest):
        return f"which is for {approval.step_key} with arguments {approval.args_digest}"
    if [decided.decision for decided in approval.decisions] != [APPROVED]:
        decisions = ", ".join(decided.decision for decided in approval.decisions) or "nothing"
        return f"of which was said: {decisions}"
    if approval.too_late:
        return "which had expired when it was given"
    if used_by is not None and used_by != place:
        return f"which was used by {_format_call(*used_by)}"
    return None
