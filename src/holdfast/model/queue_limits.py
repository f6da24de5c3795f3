"""Queue limits (admission control): when a queue rejects submissions, so that accepted jobs are also done in time."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.errors import Busy, InvalidPayload
from holdfast.model.ids import check_integer, check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.time import SECOND, show_duration

RETRY_AFTER_S: Final = 5


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a queue: at most `depth_max` pending jobs, none of them ready for longer than `age_max_us`. None: no
    limit."""

    queue: str
    namespace: str = DEFAULT_NAMESPACE
    depth_max: int | None = None
    age_max_us: int | None = None


class QueueLoad(msgspec.Struct, frozen=True):
    """Load of a queue: its pending jobs, counted up to the limit only, and since when the oldest could run."""

    depth: int
    oldest_at: int | None


def admit(limits: QueueLimits, load: QueueLoad, coming: int, now: int) -> None:
    """Raise Busy, with the limit, unless so many more jobs fit."""
    if limits.depth_max is not None and load.depth + coming > limits.depth_max:
        msg = f"queue {limits.queue!r} is full: its limit is {limits.depth_max:,} pending jobs"
        raise Busy(msg, retry_after_s=RETRY_AFTER_S)
    if limits.age_max_us is None or load.oldest_at is None:
        return
    age = now - load.oldest_at
    if age > limits.age_max_us:
        waited, allowed = show_duration(age // SECOND * SECOND), show_duration(limits.age_max_us)
        msg = f"queue {limits.queue!r} is behind: its oldest job has waited {waited}, and the limit is {allowed}"
        raise Busy(msg, retry_after_s=RETRY_AFTER_S)


def check_limits(limits: QueueLimits) -> QueueLimits:
    """Return the limits, or raise an error that says what to change."""
    check_name(limits.queue, "queue")
    check_name(limits.namespace, "namespace")
    for label, value in (("depth_max", limits.depth_max), ("age_max_us", limits.age_max_us)):
        if value is not None and check_integer(value, label) < 0:
            msg = f"{label}={value} is below zero"
            raise InvalidPayload(msg, hint="Give a limit from 0 on, or none.")
    return limits
