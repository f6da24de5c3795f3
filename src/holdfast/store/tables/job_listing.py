"""Finding jobs. Whatever is asked for, an index leads to it or to where the walk begins.

A listing goes from new to old along `jobs_by_age`, so what is common is found at once. What is rare would be walked
past everything else: jobs that run among a hundred thousand that are over. For that there are indexes of a few jobs
each, by status, session and parent; if one of them has few enough, the page is made of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdfast.model.jobs import JobFilter, JobNames
from holdfast.model.states import FOR_A_PERSON, TERMINAL, Status, WaitReason
from holdfast.model.suspicion import UNCLAIMED_US
from holdfast.store.executor import Row, Transaction, Value
from holdfast.store.tables.payloads import word

FEW: Final = 2_000
"""So many are sorted for a page; if there are more, the walk soon meets enough of them."""


async def list_in(tx: Transaction, which: JobFilter, *, before: tuple[int, str], limit: int) -> Sequence[Row]:
    """Rows of jobs, newest first."""
    wanted = _wanted(which)
    wanted["since"] = wanted["since"] or 0
    until = wanted.pop("until")
    before_at, before_id = before if until is None else min(before, (until, ""))
    start: dict[str, Value] = {"before_at": before_at, "before_id": before_id}
    few = await _few(tx, which)
    if few is None:
        return await tx.rows("list_jobs", limit=limit, **start, **wanted)
    return await tx.rows("list_jobs_among", job_ids=few, limit=limit, **start, **wanted)


async def needing_person_in(tx: Transaction, namespace: str | None, limit: int, after: str) -> list[str]:
    """Ids of jobs that may need a person."""
    rows = await tx.rows(
        "list_jobs_needing_person",
        namespace=namespace,
        reasons=sorted(FOR_A_PERSON),
        unclaimed_us=UNCLAIMED_US,
        after=after,
        limit=limit,
    )
    return [row[0] for row in rows]


async def tally_in(tx: Transaction, which: JobFilter) -> dict[tuple[Status, WaitReason | None], int]:
    wanted = _wanted(which)
    if (which.parent_job_id, which.since, which.until, which.text) == (None, None, None, None):
        for name in ("parent_job_id", "since", "until", "text"):
            del wanted[name]
        rows = await tx.rows("count_heads_by_state", **wanted)
    else:
        rows = await tx.rows("count_jobs_by_state", **wanted)
    return {
        (word(Status, status), None if reason is None else word(WaitReason, reason)): count
        for status, reason, count in rows
    }


async def names_in(tx: Transaction, namespace: str | None, limit: int) -> JobNames:
    kinds = await tx.rows("list_kinds", namespace=namespace, limit=limit)
    queues = await tx.rows("list_queues", namespace=namespace, limit=limit)
    return JobNames(tuple(row[0] for row in kinds), tuple(row[0] for row in queues))


def _statuses(which: JobFilter) -> frozenset[Status]:
    """Those that a job may have to fit."""
    allowed = frozenset(which.statuses or Status)
    if which.status is not None:
        allowed &= {which.status}
    return allowed & {Status.WAITING} if which.wait_reason is not None else allowed


def _wanted(which: JobFilter) -> dict[str, Any]:
    statuses = _statuses(which)
    return {
        "namespace": which.namespace,
        "any_status": int(len(statuses) == len(Status)),
        "statuses": sorted(statuses),
        "wait_reason": which.wait_reason,
        "kind": which.kind,
        "queue": which.queue,
        "session_id": which.session_id,
        "parent_job_id": which.parent_job_id,
        "since": which.since,
        "until": which.until,
        "text": None if which.text is None else ascii_lower(which.text),
    }


async def _few(tx: Transaction, which: JobFilter) -> list[str] | None:
    """The ids among which all that fit are, if an index has few of them."""
    if which.parent_job_id is not None:
        found = await tx.rows("list_child_job_ids", parent_job_id=which.parent_job_id, limit=FEW + 1)
    elif which.session_id is not None and which.namespace is not None:
        place = {"namespace": which.namespace, "session_id": which.session_id}
        found = await tx.rows("list_session_job_ids", limit=FEW + 1, **place)
    elif not (statuses := _statuses(which)) & TERMINAL:
        reasons = list(WaitReason) if which.wait_reason is None else [which.wait_reason]
        found = await tx.rows(
            "list_unfinished_job_ids",
            pending=int(Status.PENDING in statuses),
            running=int(Status.RUNNING in statuses),
            reasons=reasons if Status.WAITING in statuses else [],
            limit=FEW + 1,
        )
    else:
        return None
    return [row[0] for row in found] if len(found) <= FEW else None


def ascii_lower(text: str) -> str:
    """As both databases have it: A to Z, and nothing else."""
    return "".join(chr(ord(one) + 32) if "A" <= one <= "Z" else one for one in text)
