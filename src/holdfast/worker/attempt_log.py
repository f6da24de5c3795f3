"""Attempt log: one line for an attempt that did not end well, with the author's line and the command to look closer.

    job j1 (buy) failed, attempt 1: KeyError: 'no' at /app/shop.py:12 in pay; next attempt in 4 s. See: holdfast job j1

Attempts that complete, sleep, or wait for a signal or an approval are not logged.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from typing import Any, Final

from holdfast.engine.job_runner import JobRun
from holdfast.engine.recovery import summarize_causes
from holdfast.engine.tracebacks import format_error, locate_error
from holdfast.model.events import (
    Event,
    JobCompleted,
    JobDeadLettered,
    JobFailure,
    JobParked,
    JobRequeued,
    JobStalled,
    JobWaiting,
)
from holdfast.model.replay_history import Recorded
from holdfast.model.stall_report import summarize_report
from holdfast.model.states import WaitReason

_ERROR_MAX: Final = 500


def log_attempt(log: logging.Logger, run: JobRun) -> None:
    """Writes the line for an attempt that has ended, if it is worth one."""
    if isinstance(run.ended_with, JobCompleted):
        return
    grant = run.grant
    description = describe_end(run.ended_with, grant.attempts, run.sleeps_for_us(), run.find_uncertain())
    if description is not None:
        see = shlex.quote(grant.job_id)
        log.warning("job %s (%s) %s. See: holdfast job %s", grant.job_id, grant.kind, description, see)


def describe_end(
    event: Event | None, failed_before: int, next_us: int | None, uncertain: Sequence[Recorded] = ()
) -> str | None:
    """Describes the outcome of an attempt that ended with this event. None: nothing that needs attention."""
    match event:
        case JobRequeued(error=error) if error is not None:
            again = "" if next_us is None else f"; next attempt in {format_delay(next_us)}"
            return f"failed, attempt {failed_before + 1}: {_describe_error(error)}{again}"
        case JobDeadLettered(causes=causes):
            return _describe_death(causes, failed_before)
        case JobFailure(error=error):
            return f"has failed: {_describe_error(error)}"
        case JobParked(report=report):
            why = report.get("why", "") if isinstance(report, dict) else ""
            return f"is parked, its code no longer matches its journal: {why}"
        case JobStalled(report=report):
            return f"is held, it makes no progress: {summarize_report(report)}"
        case JobWaiting(reason=WaitReason.RECONCILE):
            return f"waits for a person: {'; '.join(map(_describe_doubt, uncertain)) or 'outcome of a call unknown'}"
        case JobWaiting(reason=WaitReason.BUDGET):
            return "waits for a person: its budget is used up"
        case _:
            return None


def format_delay(us: int) -> str:
    """A short span of time: `0.4 s`, `4 s`, `3 min`."""
    seconds = max(us, 0) / 1_000_000
    if seconds >= 120:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s" if seconds >= 2 else f"{seconds:.1f} s"


def _describe_death(causes: Sequence[Any], failed_before: int) -> str:
    last = causes[-1] if causes and isinstance(causes[-1], dict) else {}
    error = last.get("error")
    if error is None:
        return f"is a dead letter: {last.get('why') or summarize_causes(causes)}"
    return f"is a dead letter, failed after {_count(failed_before + 1)}: {_describe_error(error)}"


def _count(attempts: int) -> str:
    return "1 attempt" if attempts == 1 else f"{attempts} attempts"


def _describe_doubt(call: Recorded) -> str:
    if call.raised is None:
        return f"outcome unknown: {call.name} was cut off"
    return f"outcome unknown: {call.name} raised {_describe_error(call.raised)}"


def _describe_error(error: Any) -> str:
    text = " ".join(format_error(error).split())
    text = text if len(text) <= _ERROR_MAX else text[: _ERROR_MAX - 1] + "…"
    place = locate_error(error)
    return f"{text} at {place}" if place else text
