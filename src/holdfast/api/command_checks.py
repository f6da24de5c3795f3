"""Checks of commands to a job: pure functions, and errors that name the next command."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

from holdfast.api.job_needs import answer_to, approvals_of, uncertain_need, word_on
from holdfast.api.job_records import Accepted
from holdfast.api.job_snapshot import Loaded
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


# ── commands ──────────────────────────────────────────────────────────────────────────────────────


def cancel(why: str, by: str, operation_id: str) -> CancelRequested:
    return CancelRequested(by=_name(by), why=why, operation_id=operation_id)


def requeue(why: str, by: str, operation_id: str) -> JobRequeued:
    return JobRequeued(by=_name(by) or None, why=why, operation_id=operation_id)


def cancel_letter(command: CancelRequested, job_id: str) -> MailDraft:
    """The cancel command as mail, whose name is the reason in short."""
    why = redact(_ODD.sub(" ", command.why).strip())
    return MailDraft(
        job_id=job_id,
        kind=MailKind.CANCEL,
        operation_id=command.operation_id,
        name=why if len(why) <= NAME_LENGTH_MAX else why[: NAME_LENGTH_MAX - 1] + "…",
        sender=command.by,
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


# ── repeated commands ─────────────────────────────────────────────────────────────────────────────


def find_repeated(job: Loaded, draft: MailDraft) -> Accepted | None:
    """The first response, if this mail was sent before. Other mail under its operation id is KeyReused."""
    for mail in job.letters:
        if mail.operation_id == draft.operation_id:
            stored = (mail.kind, mail.name, mail.body, mail.sender)
            _must_be_same(draft.operation_id, stored, (draft.kind, draft.name, draft.body, draft.sender))
            return Accepted(
                job_id=draft.job_id, operation_id=draft.operation_id, at_once=False, repeated=True
            )
    return None


def earlier(job: Loaded, command: CancelRequested | JobRequeued) -> Accepted | None:
    """The first response, if the journal has an event with this operation id."""
    for fact in job.facts:
        event = fact.event
        if isinstance(event, CancelRequested | JobRequeued) and event.operation_id == command.operation_id:
            _must_be_same(
                command.operation_id,
                (event.type, event.by, event.why),
                (command.type, command.by, command.why),
            )
            return Accepted(
                job_id=job.head.job_id, operation_id=command.operation_id, at_once=True, repeated=True
            )
    return None


def earlier_cancel(job: Loaded, command: CancelRequested) -> Accepted | None:
    """The first response to this operation: from the journal if it was applied at once, else from the mailbox."""
    return earlier(job, command) or find_repeated(job, cancel_letter(command, job.head.job_id))


def must_be_first(first_mail: Mail | None, draft: MailDraft) -> None:
    """Of two concurrent decisions the first is applied, and the second is rejected."""
    if first_mail is not None and first_mail.operation_id != draft.operation_id:
        msg = f"{first_mail.sender or 'another person'} has already decided: {first_mail.body['decision']}"
        raise Conflict(msg, hint="The job continues with that decision; yours was not applied.")


def _must_be_same(operation_id: str, stored: tuple[Any, ...], sent: tuple[Any, ...]) -> None:
    digests = [canonical.hex_digest(canonical.encode(list(content))) for content in (stored, sent)]
    if digests[0] != digests[1]:
        msg = f"operation id {operation_id} was used for another command"
        raise KeyReused(msg, stored=digests[0], sent=digests[1])


# ── reconcile ─────────────────────────────────────────────────────────────────────────────────────


def find_generation(job: Loaded, step_key: str, operation_id: str) -> int:
    """The newest generation of this call; for a repeated command, the generation of the first time.

    Raises:
        NotFound: No such call. The hint names those that do wait.
    """
    for mail in job.letters:
        if mail.operation_id == operation_id and isinstance(mail.body, dict):
            return int(mail.body.get("generation", 0))
    generations = [generation for key, generation in job.job.calls if key == step_key]
    if generations:
        return max(generations)
    waiting = [key for (key, _), call in job.job.calls.items() if call.status is CallStatus.UNCERTAIN]
    msg = f"job {job.head.job_id} has no call {step_key!r}"
    quoted_keys = ", ".join(map(shlex.quote, waiting))
    raise NotFound(
        msg,
        hint=f"Calls of unknown outcome: {quoted_keys}."
        if quoted_keys
        else f"It has no call of unknown outcome. {_look(job)}",
    )


def check_reconcile(job: Loaded, decision: dict[str, Any], *, now: int) -> None:
    """Checks that the call waits for this decision, and that the decision is allowed by now."""
    place = (decision["step_key"], decision["generation"])
    call = job.job.calls.get(place)
    if call is None:
        msg = f"job {job.head.job_id} has no generation {place[1]} of call {place[0]!r}"
        raise NotFound(msg, hint=_look(job))
    if job.head.status in TERMINAL:
        raise over(job.head, "reconcile")
    if call.status is not CallStatus.UNCERTAIN:
        raise _decided_before(job, place, call.status)
    need = uncertain_need(job, *place)
    if (mail := word_on(job, need)) is not None:
        msg = (
            f"{mail.sender or 'another person'} has already decided {mail.body['decision']!r} for {place[0]}"
        )
        raise Conflict(msg, hint=f"The job continues with that as soon as a worker claims it. {_look(job)}")
    if decision["decision"] in RESENDS and need.allowed_at is not None and now < need.allowed_at:
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
        event = fact.event
        if isinstance(event, ToolReconciled) and (event.step_key, event.generation) == place:
            msg = f"{event.by or 'another person'} has already decided {event.decision!r} for {place[0]}"
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
    """The approval that a repeated command decided the first time."""
    for mail in job.letters:
        if mail.operation_id == operation_id and mail.kind is MailKind.APPROVAL:
            return str(mail.body["approval_id"])
    return None


def only_approval(job: Loaded, step_key: str | None) -> str:
    """The approval that a command with a job's id decides; raises an error with the choice if there are several."""
    approvals = approvals_of(job)
    if step_key is not None:
        approvals = {
            name: approval for name, approval in approvals.items() if approval.asked.step_key == step_key
        }
    still_open = [name for name, approval in approvals.items() if approval.decided is None]
    if len(still_open) == 1:
        return still_open[0]
    if still_open:
        msg = f"job {job.head.job_id} waits for {len(still_open)} approvals"
        raise InvalidMove(msg, hint=f"Give the id of one: {', '.join(map(shlex.quote, still_open))}.")
    if approvals:
        return list(approvals)[-1]  # decided; `check_approval` names the author
    msg = f"job {job.head.job_id} has requested no approval"
    raise NotFound(msg, hint=_look(job))


def check_approval(job: Loaded, approval_id: str, *, now: int) -> None:
    approval = approvals_of(job)[approval_id]
    if approval.decided is not None:
        decided = approval.decided
        msg = f"approval {approval_id} was already {decided.decision} by {decided.by or 'another person'}"
        raise Conflict(msg, hint=_look(job))
    if job.head.status in TERMINAL:
        raise over(job.head, "decide for")
    if (mail := answer_to(job, approval_id)) is not None:
        decision = mail.body.get("decision")
        msg = f"approval {approval_id} was already {decision} by {mail.sender or 'another person'}"
        raise Conflict(msg, hint="The job reads the decision as soon as a worker claims it.")
    expires_at = approval.asked.expires_at
    if expires_at is not None and expires_at <= now:
        msg = f"approval {approval_id} expired at {_clock(expires_at)}"
        raise InvalidMove(msg, hint=_look(job))


# ── rejections by state ───────────────────────────────────────────────────────────────────────────


def check_choice(choice: str) -> None:
    if choice not in CHOICES:
        msg = f"{choice!r} is not a choice"
        raise InvalidPayload(msg, hint=f"Use one of {', '.join(CHOICES)}.")


def over(head: JobHead, verb: str) -> InvalidMove:
    msg = f"cannot {verb} job {head.job_id}: it is {head.status}"
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
    """The state of a job in words."""
    if head.wait_reason is None:
        return str(head.status)
    return f"waiting ({WaitReason(head.wait_reason).replace('_', ' ')})"


def _look(job: Loaded) -> str:
    return f"`holdfast job {shlex.quote(job.head.job_id)}` shows what it waits for."


def _clock(at: int) -> str:
    return to_iso(at)[:19].replace("T", " ") + " UTC"


def plainly(event: Event) -> str:
    """An event in words, if no other sentence describes it."""
    if isinstance(event, ProgressReported):
        return f"{event.progress} % done" + (f": {event.note}" if event.note else "")
    return event.type.replace("_", " ")
