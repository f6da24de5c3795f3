"""Checks of commands to a job: pure functions, and errors that name the next command."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

from holdfast.api.job_records import Accepted
from holdfast.api.job_snapshot import Loaded
from holdfast.api.needs import answer_to, approvals_of, uncertain_need, word_on
from holdfast.errors import Conflict, InvalidMove, InvalidPayload, KeyReused, NotFound
from holdfast.model import canonical
from holdfast.model.events import CancelRequested, Event, JobRequeued, ProgressReported, ToolReconciled
from holdfast.model.ids import check_name
from holdfast.model.jobs import JobHead
from holdfast.model.limits import NAME_LENGTH_MAX
from holdfast.model.mailbox import Mail, MailDraft
from holdfast.model.redaction import redact
from holdfast.model.side_effects import DECIDED, CallStatus, Effect
from holdfast.model.states import TERMINAL, MailKind, Status, WaitReason
from holdfast.model.time import to_iso

CHOICES: Final = ("continue", "accept")
RESENDS: Final = ("not_happened", "relaunch")
"""Decisions after which the call is made again."""

_ODD: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


# ── the words ─────────────────────────────────────────────────────────────────────────────────────


def cancel(why: str, by: str, operation_id: str) -> CancelRequested:
    return CancelRequested(by=_name(by), why=why, operation_id=operation_id)


def requeue(why: str, by: str, operation_id: str) -> JobRequeued:
    return JobRequeued(by=_name(by) or None, why=why, operation_id=operation_id)


def cancel_letter(asked: CancelRequested, job_id: str) -> MailDraft:
    """The cancel as a letter, whose name is the reason in short."""
    why = redact(_ODD.sub(" ", asked.why).strip())
    return MailDraft(
        job_id=job_id,
        kind=MailKind.CANCEL,
        operation_id=asked.operation_id,
        name=why if len(why) <= NAME_LENGTH_MAX else why[: NAME_LENGTH_MAX - 1] + "…",
        sender=asked.by,
    )


def word(step_key: str, generation: int, decision: str, *, why: str, by: str, result: Any) -> dict[str, Any]:
    """The decision of a person about a call of unknown outcome."""
    check_name(by, "by")
    if decision not in DECIDED:
        msg = f"{decision!r} is not a decision"
        raise InvalidPayload(msg, hint=f"Use one of {', '.join(DECIDED)}.")
    if result is not None and decision not in {"happened", "skip"}:
        msg = f"the decision {decision!r} takes no result"
        raise InvalidPayload(
            msg, hint="Give a result with `happened` (what the call returned) or `skip` (a substitute) only."
        )
    return {
        "step_key": step_key,
        "decision": decision,
        "why": reason(why),
        "generation": generation,
        "result": result,
    }


def reason(why: str) -> str:
    """The reason, which must not be empty: the next reader of the journal has nothing else."""
    if not why.strip():
        msg = "a decision needs a reason"
        raise InvalidPayload(msg, hint='Give one: --why "the order is in the shop\'s list"')
    return why


def _name(by: str) -> str:
    return check_name(by, "by") if by else by


# ── said before? ──────────────────────────────────────────────────────────────────────────────────


def find_repeated(job: Loaded, draft: MailDraft) -> Accepted | None:
    """The first answer, if this letter was sent before. Another letter under its operation id is KeyReused."""
    for letter in job.letters:
        if letter.operation_id == draft.operation_id:
            stored = (letter.kind, letter.name, letter.body, letter.sender)
            _must_be_same(draft.operation_id, stored, (draft.kind, draft.name, draft.body, draft.sender))
            return Accepted(
                job_id=draft.job_id, operation_id=draft.operation_id, at_once=False, repeated=True
            )
    return None


def earlier(job: Loaded, asked: CancelRequested | JobRequeued) -> Accepted | None:
    """The first answer, if the journal has what was done under this operation id."""
    for fact in job.facts:
        done = fact.event
        if isinstance(done, CancelRequested | JobRequeued) and done.operation_id == asked.operation_id:
            _must_be_same(
                asked.operation_id, (done.type, done.by, done.why), (asked.type, asked.by, asked.why)
            )
            return Accepted(
                job_id=job.head.job_id, operation_id=asked.operation_id, at_once=True, repeated=True
            )
    return None


def earlier_cancel(job: Loaded, asked: CancelRequested) -> Accepted | None:
    """The answer that this operation got before: from the journal if it was served at once, else from the mail."""
    return earlier(job, asked) or find_repeated(job, cancel_letter(asked, job.head.job_id))


def must_be_first(heard: Mail | None, sent: MailDraft) -> None:
    """Of two concurrent decisions the first is applied, and the second is rejected."""
    if heard is not None and heard.operation_id != sent.operation_id:
        msg = f"{heard.sender or 'another person'} has already decided: {heard.body['decision']}"
        raise Conflict(msg, hint="The job continues with that decision; yours was not applied.")


def _must_be_same(operation_id: str, stored: tuple[Any, ...], sent: tuple[Any, ...]) -> None:
    digests = [canonical.hex_digest(canonical.encode(list(one))) for one in (stored, sent)]
    if digests[0] != digests[1]:
        msg = f"operation id {operation_id} was used for another command"
        raise KeyReused(msg, stored=digests[0], sent=digests[1])


# ── reconcile ─────────────────────────────────────────────────────────────────────────────────────


def find_generation(job: Loaded, step_key: str, operation_id: str) -> int:
    """The newest generation of this call; the one that was meant the first time, if this was said before.

    Raises:
        NotFound: No such call. The hint names those that do wait.
    """
    for letter in job.letters:
        if letter.operation_id == operation_id and isinstance(letter.body, dict):
            return int(letter.body.get("generation", 0))
    found = [generation for key, generation in job.job.calls if key == step_key]
    if found:
        return max(found)
    waiting = [key for (key, _), call in job.job.calls.items() if call.status is CallStatus.UNCERTAIN]
    msg = f"job {job.head.job_id} has no call {step_key!r}"
    named = ", ".join(map(shlex.quote, waiting))
    raise NotFound(
        msg,
        hint=f"Calls of unknown outcome: {named}."
        if named
        else f"It has no call of unknown outcome. {_look(job)}",
    )


def check_reconcile(job: Loaded, said: dict[str, Any], *, now: int) -> None:
    """The call waits for exactly this word, and the word may be said by now."""
    place = (said["step_key"], said["generation"])
    call = job.job.calls.get(place)
    if call is None:
        msg = f"job {job.head.job_id} has no generation {place[1]} of call {place[0]!r}"
        raise NotFound(msg, hint=_look(job))
    if job.head.status in TERMINAL:
        raise over(job.head, "reconcile")
    if call.status is not CallStatus.UNCERTAIN:
        raise _decided_before(job, place, call.status)
    need = uncertain_need(job, *place)
    if (letter := word_on(job, need)) is not None:
        msg = f"{letter.sender or 'another person'} has already decided {letter.body['decision']!r} for {place[0]}"
        raise Conflict(msg, hint=f"The job continues with that as soon as a worker claims it. {_look(job)}")
    if said["decision"] in RESENDS and need.allowed_at is not None and now < need.allowed_at:
        msg = (
            f"it is too early to decide that {need.tool} did not happen: until {_clock(need.allowed_at)} "
            "the worker that was cut off may still send it"
        )
        left = max((need.allowed_at - now) // 1_000_000 + 1, 1)
        raise InvalidMove(
            msg, hint=f"Repeat the command in {left} s; --happened, --skip and --fail are allowed now."
        )


def _decided_before(job: Loaded, place: tuple[str, int], status: CallStatus) -> Exception:
    for fact in job.facts:
        done = fact.event
        if isinstance(done, ToolReconciled) and (done.step_key, done.generation) == place:
            msg = f"{done.by or 'another person'} has already decided {done.decision!r} for {place[0]}"
            return Conflict(msg, hint=_look(job))
    effect = job.job.calls[place].effect
    msg = f"the outcome of call {place[0]} is known: {status}"
    if status is CallStatus.PREPARED:
        settles = effect in {Effect.IDEMPOTENT, Effect.VERIFIABLE}
        by_itself = "; recovery settles it by itself" if settles else "; a worker must recover it first"
        return InvalidMove(msg + by_itself, hint=_look(job))
    return InvalidMove(msg, hint=f"There is nothing to decide. {_look(job)}")


# ── approvals ─────────────────────────────────────────────────────────────────────────────────────


def find_decided_approval(job: Loaded, operation_id: str | None) -> str | None:
    """The approval that was meant when the same was said before."""
    for letter in job.letters:
        if letter.operation_id == operation_id and letter.kind is MailKind.APPROVAL:
            return str(letter.body["approval_id"])
    return None


def only_approval(job: Loaded, step_key: str | None) -> str:
    """The approval that is meant when a job is named, or the choice."""
    asked = approvals_of(job)
    if step_key is not None:
        asked = {name: one for name, one in asked.items() if one.asked.step_key == step_key}
    still_open = [name for name, one in asked.items() if one.decided is None]
    if len(still_open) == 1:
        return still_open[0]
    if still_open:
        msg = f"job {job.head.job_id} waits for {len(still_open)} approvals"
        raise InvalidMove(msg, hint=f"Give the id of one: {', '.join(map(shlex.quote, still_open))}.")
    if asked:
        return list(asked)[-1]  # decided; `check_approval` says by whom
    msg = f"job {job.head.job_id} has requested no approval"
    raise NotFound(msg, hint=_look(job))


def check_approval(job: Loaded, approval_id: str, *, now: int) -> None:
    approval = approvals_of(job)[approval_id]
    if approval.decided is not None:
        done = approval.decided
        msg = f"approval {approval_id} was already {done.decision} by {done.by or 'another person'}"
        raise Conflict(msg, hint=_look(job))
    if job.head.status in TERMINAL:
        raise over(job.head, "decide for")
    if (letter := answer_to(job, approval_id)) is not None:
        decision = letter.body.get("decision")
        msg = f"approval {approval_id} was already {decision} by {letter.sender or 'another person'}"
        raise Conflict(msg, hint="The job reads the decision as soon as a worker claims it.")
    expires_at = approval.asked.expires_at
    if expires_at is not None and expires_at <= now:
        msg = f"approval {approval_id} expired at {_clock(expires_at)}"
        raise InvalidMove(msg, hint=_look(job))


# ── states that do not allow it ───────────────────────────────────────────────────────────────────


def check_choice(choice: str) -> None:
    if choice not in CHOICES:
        msg = f"{choice!r} is not a choice"
        raise InvalidPayload(msg, hint=f"Use one of {', '.join(CHOICES)}.")


def over(head: JobHead, what: str) -> InvalidMove:
    msg = f"cannot {what} job {head.job_id}: it is {head.status}"
    return InvalidMove(
        msg, hint=f"The job has ended; its outcome: `holdfast job {shlex.quote(head.job_id)}`."
    )


def not_dead(job: Loaded) -> InvalidMove:
    msg = f"job {job.head.job_id} is not a dead letter: it is {state(job.head)}"
    return InvalidMove(msg, hint="`holdfast dead list` shows the dead letters.")


def not_held(job: Loaded) -> InvalidMove:
    if job.head.status in TERMINAL:
        return over(job.head, "resume")
    msg = f"job {job.head.job_id} is not held: it is {state(job.head)}"
    if job.head.status is Status.WAITING:
        return InvalidMove(msg, hint=_look(job))
    return InvalidMove(msg, hint="It continues by itself as soon as a worker is free.")


def state(head: JobHead) -> str:
    """Where a job stands, in words."""
    if head.wait_reason is None:
        return str(head.status)
    return f"waiting ({WaitReason(head.wait_reason).replace('_', ' ')})"


def _look(job: Loaded) -> str:
    return f"`holdfast job {shlex.quote(job.head.job_id)}` shows what it waits for."


def _clock(at: int) -> str:
    return to_iso(at)[:19].replace("T", " ") + " UTC"


def plainly(event: Event) -> str:
    """A fact in words, where nothing more is to be said of it."""
    if isinstance(event, ProgressReported):
        return f"{event.progress} % done" + (f": {event.note}" if event.note else "")
    return event.type.replace("_", " ")
