"""Job results: waits from outside for the end of a job."""

from __future__ import annotations

import logging
from typing import Any, Final

from holdfast.engine.journal_reader import SHORT
from holdfast.engine.tracebacks import format_error
from holdfast.errors import JobCancelled, JobFailed, JobHeld, JobTimedOut
from holdfast.model import events
from holdfast.model.hash_chain import SealedEvent, unseal
from holdfast.model.job_deadline import TIMED_OUT
from holdfast.model.jobs import JobHead
from holdfast.model.stall_report import summarize_report
from holdfast.model.states import TERMINAL, Status, WaitReason
from holdfast.store.contract import Store

POLL_S: Final = 1.0

_HELD: Final = {
    WaitReason.DEAD_LETTER: (
        "it failed all its attempts and is a dead letter",
        "holdfast dead requeue {job}",
    ),
    WaitReason.DRIFT: ("its code no longer matches its journal", "holdfast job {job}"),
    WaitReason.STALLED: ("its code makes no progress, and the job is held", "holdfast job {job}"),
    WaitReason.RESTORE_REVIEW: (
        "the store was restored from a backup, and the job is held for review",
        "holdfast resume {job}",
    ),
}

_PEOPLE: Final = {
    WaitReason.RECONCILE: "the outcome of a call is unknown",
    WaitReason.APPROVAL: "it waits for an approval or an answer",
    WaitReason.BUDGET: "its budget is used up",
}

_LOG: Final = logging.getLogger("holdfast")


async def wait_for_result(store: Store, job_id: str) -> Any:
    """Returns the job's result, as soon as it has one. A job that ended otherwise, or is held for a person, is an
    error. While the job waits for a signal, a time or an answer, the call waits, and logs a warning if a person has to
    act."""
    topics = frozenset({f"job:{job_id}"})
    last_reason: WaitReason | None = None
    while True:
        head, sealed = await store.jobs.read_with_events(job_id, events=SHORT)
        if head.status in TERMINAL:
            return _return_result(
                head, sealed[-1] if len(sealed) == head.head_seq else await _read_last_event(store, head)
            )
        if head.wait_reason in _HELD:
            description, command = _HELD[head.wait_reason]
            hint = f"See what it needs, then decide: {command.format(job=job_id)}"
            raise JobHeld(
                f"job {job_id}: {description}{await _explain_hold(store, head)}", job_id=job_id, hint=hint
            )
        if head.wait_reason in _PEOPLE and head.wait_reason is not last_reason:
            description = _PEOPLE[head.wait_reason]
            _LOG.warning("job %s needs a person: %s. See: holdfast job %s", job_id, description, job_id)
        last_reason = head.wait_reason
        await store.wakeups.wait(topics, POLL_S)


async def _read_last_event(store: Store, head: JobHead) -> SealedEvent:
    (last,) = await store.journal.read(head.job_id, after=head.head_seq - 1, limit=1)
    return last


def _return_result(head: JobHead, last: SealedEvent) -> Any:
    event = unseal(last)
    if isinstance(event, events.JobCompleted):
        return event.output
    if head.status is Status.CANCELLED:
        raise JobCancelled(f"job {head.job_id} was cancelled", job_id=head.job_id)
    error = event.error if isinstance(event, events.JobFailure) else None
    if isinstance(error, dict) and error.get("type") == TIMED_OUT:
        raise JobTimedOut(error["message"], job_id=head.job_id)
    raise JobFailed(f"job {head.job_id} failed: {format_error(error)}", job_id=head.job_id)


async def _explain_hold(store: Store, head: JobHead) -> str:
    """The reason in the last event of a held job."""
    match unseal(await _read_last_event(store, head)):
        case events.JobDeadLettered(causes=causes) if causes:
            last = causes[-1]
            error, why = last.get("error"), last.get("why", "")
            return f": {format_error(error)}" if error is not None else f": {why}" if why else ""
        case events.JobParked(report=report) if report:
            return f": {report.get('why', '')}"
        case events.JobStalled(report=report):
            return f": {summarize_report(report)}"
        case _:
            return ""
