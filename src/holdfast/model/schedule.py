"""Schedules (cron): when jobs start, and how missed times are caught up.

    on time     the job is submitted under a key of schedule and instant, and the schedule moves to its next instant
    late        its catch-up decides: `skip` leaves out what was missed, `one` makes one job of all of it, `all` makes
                each of them, oldest first

One decision is one firing and one transaction. What is still due after it is decided again, so a long absence is worked
off in small pieces, by any worker that is running.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidName, InvalidSetting
from holdfast.model.budget import Budget
from holdfast.model.ids import check_integer, check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE, DEFAULT_QUEUE, JobDraft, check_draft
from holdfast.model.limits import PRIORITY_DEFAULT
from holdfast.model.time import MINUTE, to_iso

LATE_US: Final = MINUTE
"""An instant counts as on time up to this delay: processes check every few seconds, and one may be restarted in
between."""

ID_LENGTH_MAX: Final = 160
"""Leaves room in a request key for the instant after the id."""

After = Callable[[int], int]
"""Returns the first instant of a schedule after the given one."""


class CatchUp(StrEnum):
    """What to do about scheduled times that were missed."""

    SKIP = "skip"
    ONE = "one"
    ALL = "all"


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule: which job starts when. `next_at` is the time of its next run, and guards against a second one."""

    schedule_id: str
    kind: str
    cron: str
    next_at: int
    time_zone: str = "UTC"
    catch_up: CatchUp = CatchUp.SKIP
    input: Any = None
    namespace: str = DEFAULT_NAMESPACE
    queue: str = DEFAULT_QUEUE
    priority: int = PRIORITY_DEFAULT
    budget: Budget | None = None
    python_version: str | None = None
    paused: bool = False
    created_at: int = 0


class ScheduleDecision(msgspec.Struct, frozen=True):
    """The instant to start a job for, if any, and the next instant of the schedule afterwards."""

    fire: int | None
    next_at: int


def decide(schedule: Schedule, now: int, after: After) -> ScheduleDecision | None:
    """What to do with the schedule now; None: nothing."""
    due = schedule.next_at
    if schedule.paused or due > now:
        return None
    if now - due <= LATE_US or schedule.catch_up is CatchUp.ALL:
        return ScheduleDecision(due, after(due))
    if schedule.catch_up is CatchUp.ONE:
        return ScheduleDecision(due, after(now))
    return ScheduleDecision(None, after(now - LATE_US - 1))


def make_job(schedule: Schedule, instant: int) -> JobDraft:
    """The request for the job of this instant. Its request key makes it one job, whichever worker submits it and
    however often."""
    return JobDraft(
        kind=schedule.kind,
        input=schedule.input,
        namespace=schedule.namespace,
        queue=schedule.queue,
        priority=schedule.priority,
        budget=schedule.budget,
        request_key=f"{schedule.schedule_id}@{to_iso(instant)}",
        python_version=schedule.python_version,
    )


def same_times(schedule: Schedule, other: Schedule) -> bool:
    """Whether both fire at the same instants, so that one can continue from the other's next instant."""
    return (schedule.cron, schedule.time_zone) == (other.cron, other.time_zone)


def parse_catch_up(text: str) -> CatchUp:
    try:
        return CatchUp(text)
    except ValueError:
        msg = f"catch_up={text!r} is not known"
        raise InvalidSetting(msg, hint=f"Use one of {', '.join(CatchUp)}.") from None


def check_schedule(schedule: Schedule) -> Schedule:
    """Return the schedule, or raise an error that says what to change."""
    check_name(schedule.schedule_id, "schedule id")
    if len(schedule.schedule_id) > ID_LENGTH_MAX:
        msg = f"schedule id has {len(schedule.schedule_id)} characters; allowed are 1 to {ID_LENGTH_MAX}"
        raise InvalidName(msg)
    check_name(schedule.cron, "cron expression")
    check_name(schedule.time_zone, "time zone")
    check_integer(schedule.next_at, "next_at")
    check_draft(make_job(schedule, schedule.next_at))
    return schedule
