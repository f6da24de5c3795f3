"""Job deadline: the time limit of a whole job, and the error that the job fails with after it.

    @hf.agent(timeout="10m")      deadline = when the job may first be claimed + 10 minutes, in store time

Everything counts: the time in the queue, waits, back-off, time without a worker. No takeover and no further attempt
moves the deadline, because it is derived from the first event of the journal. A person who resumes a held job restarts
the time; otherwise the decision would have no effect.

Calls in progress are interrupted and not made again. The error lists them, because they may have happened.

The timeout is the one declared where the job runs, like its retry policy: a client that submits a job need not have its
code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidSetting, JobTimedOut
from holdfast.model.events import JobCreated
from holdfast.model.time import Duration, Micros, parse_duration, show_duration

TIMED_OUT: Final = JobTimedOut.__name__
NAMED_MAX: Final = 5


class JobDeadline(msgspec.Struct, frozen=True):
    """The deadline of a job. Both fields are in microseconds, `begun_at` in store time."""

    begun_at: int
    timeout_us: Micros

    @property
    def at(self) -> int:
        return self.begun_at + self.timeout_us

    def has_passed(self, now: int) -> bool:
        return now >= self.at

    def describe_error(self, job_id: str, open_calls: Iterable[str] = ()) -> dict[str, Any]:
        """The error of a job that exceeded its deadline, as the journal stores it. `open_calls` are the tools with side
        effects that it has called and whose outcome is not recorded."""
        message = f"job {job_id} was not over within its timeout of {show_duration(self.timeout_us)}"
        if names := sorted(open_calls):
            more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
            message += f"; calls without an outcome on record: {', '.join(names[:NAMED_MAX])}{more}"
        return {"type": TIMED_OUT, "message": message}


def find_deadline(
    created: JobCreated, created_at: int, resumed_at: int, timeout_us: Micros | None
) -> JobDeadline | None:
    """The deadline of a job of a kind with this timeout. `resumed_at`: when a person last resumed it, or 0."""
    if timeout_us is None:
        return None
    return JobDeadline(max(created_at, created.ready_at, resumed_at), timeout_us)


def wake_by(at: int | None, deadline: JobDeadline | None) -> int | None:
    """When a job that waits until `at` is claimed again: at its deadline at the latest."""
    if deadline is None:
        return at
    return deadline.at if at is None else min(at, deadline.at)


def parse_timeout(timeout: Duration) -> Micros:
    """The timeout of a kind of jobs, as declared."""
    timeout_us = parse_duration(timeout)
    if timeout_us == 0:
        msg = "the timeout of a job is 0: every job would fail before it began"
        raise InvalidSetting(
            msg, hint='Write "10m", "24h" or a number of seconds, or leave it out for no limit.'
        )
    return timeout_us
