"""Concurrency checks (I30): how many jobs a worker held at once, by the journals.

A hold begins with its claim and ends with the last event that was written under its fence. That is never later than
the real end of the lease, so a worker that is reported here did hold that many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from holdfast.engine.verify.journal_view import Facts
from holdfast.engine.verify.report import Violation
from holdfast.model.events import JobClaimed


class LeaseSpan(msgspec.Struct, frozen=True):
    """One hold of a job by a worker, from its claim to its last event."""

    worker: str
    job_id: str
    since: int
    until: int


def holds_of(job_id: str, facts: Facts) -> list[LeaseSpan]:
    """The holds of this job."""
    last = {fact.fence: fact.at for fact in facts}
    return [
        LeaseSpan(fact.event.worker, job_id, fact.at, max(last[fact.fence], fact.at))
        for fact in facts
        if isinstance(fact.event, JobClaimed)
    ]


def count_concurrent(holds: list[LeaseSpan]) -> dict[str, int]:
    """The largest number of jobs that each worker held at one instant.

    A hold that ends when another begins does not overlap it: the worker released one job and claimed the next.
    """
    changes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for hold in holds:
        if hold.until > hold.since:
            changes[hold.worker] += [(hold.since, 1), (hold.until, -1)]
    most: dict[str, int] = {hold.worker: 1 for hold in holds}
    for worker, moments in changes.items():
        held = 0
        for _, change in sorted(moments):
            held += change
            most[worker] = max(most[worker], held)
    return most


def check_concurrency(holds: list[LeaseSpan], concurrency: int | Mapping[str, int] | None) -> list[Violation]:
    """Workers that held more than their declared limit. A worker without a declared limit may hold any number."""
    if concurrency is None:
        return []
    violations = []
    for worker, held in sorted(count_concurrent(holds).items()):
        limit = concurrency if isinstance(concurrency, int) else concurrency.get(worker)
        if limit is not None and held > limit:
            violations.append(Violation("I30", worker, f"held {held} jobs at once; its limit is {limit}"))
    return violations
