"""How many jobs a worker held at once (I30), as the journals tell it.

A hold begins with its claim and ends with the last event that was written under its fence. That is never later than the
lease really ended, so whoever is named here did hold that many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from holdfast.engine.verify.journal_view import Facts
from holdfast.engine.verify.report import Violation
from holdfast.model.events import JobClaimed


class LeaseSpan(msgspec.Struct, frozen=True):
    """One worker on one job, from its claim to its last word."""

    worker: str
    job_id: str
    since: int
    until: int


def holds_of(job_id: str, facts: Facts) -> list[LeaseSpan]:
    """Who held this job, and when."""
    last = {fact.fence: fact.at for fact in facts}
    return [
        LeaseSpan(fact.event.worker, job_id, fact.at, max(last[fact.fence], fact.at))
        for fact in facts
        if isinstance(fact.event, JobClaimed)
    ]


def most_at_once(holds: list[LeaseSpan]) -> dict[str, int]:
    """The largest number of jobs that each worker held at one instant.

    A hold that ends where another begins does not meet it: the worker gave one job back and took the next.
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


def by_worker(holds: list[LeaseSpan], concurrency: int | Mapping[str, int] | None) -> list[Violation]:
    """The workers that held more than they said they would. A worker that said nothing may hold any number."""
    if concurrency is None:
        return []
    found = []
    for worker, held in sorted(most_at_once(holds).items()):
        limit = concurrency if isinstance(concurrency, int) else concurrency.get(worker)
        if limit is not None and held > limit:
            found.append(Violation("I30", worker, f"held {held} jobs at once; its limit is {limit}"))
    return found
