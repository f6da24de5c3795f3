"""Job listing: every filter uses an index.

A listing walks `jobs_by_age` from new to old, so a page of common jobs is found at once. A page of rare jobs would need
a long walk: running jobs among a hundred thousand that have ended. For those there are small indexes, by status,
session and parent; if one of them has few enough entries, the page is made of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdfast.model.crash_suspects import UNCLAIMED_US
from holdfast.model.jobs import JobFilter, JobNames
from holdfast.model.states import FOR_A_PERSON, TERMINAL, Status, WaitReason
from holdfast.store.executor import Row, Transaction, Value
from holdfast.store.tables.payloads import to_enum

FEW: Final = 2_000
"""Up to this many entries of an index are sorted for a page; with more, the walk soon finds enough."""


async def list_in(
    tx: Transaction, job_filter: JobFilter, *, before: tuple[int, str], limit: int
) -> Sequence[Row]:
    """Rows of jobs, newest first."""
    conditions = _build_filter_values(job_filter)
    conditions["since"] = conditions["since"] or 0
    until = conditions.pop("until")
    before_at, before_id = before if until is None else min(before, (until, ""))
    start: dict[str, Value] = {"before_at": before_at, "before_id": before_id}
    few = await _find_few_ids(tx, job_filter)
    if few is None:
        return await tx.rows("list_jobs", limit=limit, **start, **conditions)
    return await tx.rows("list_jobs_among", job_ids=few, limit=limit, **start, **conditions)


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


async def tally_in(tx: Transaction, job_filter: JobFilter) -> dict[tuple[Status, WaitReason | None], int]:
    conditions = _build_filter_values(job_filter)
    if (job_filter.parent_job_id, job_filter.since, job_filter.until, job_filter.text) == (
        None,
        None,
        None,
        None,
    ):
        for name in ("parent_job_id", "since", "until", "text"):
            del conditions[name]
        rows = await tx.rows("count_heads_by_state", **conditions)
    else:
        rows = await tx.rows("count_jobs_by_state", **conditions)
    return {
        (to_enum(Status, status), None if reason is None else to_enum(WaitReason, reason)): count
        for status, reason, count in rows
    }


async def names_in(tx: Transaction, namespace: str | None, limit: int) -> JobNames:
    kinds = await tx.rows("list_kinds", namespace=namespace, limit=limit)
    queues = await tx.rows("list_queues", namespace=namespace, limit=limit)
    return JobNames(tuple(row[0] for row in kinds), tuple(row[0] for row in queues))


def _list_statuses(job_filter: JobFilter) -> frozenset[Status]:
    """The statuses of jobs that can match."""
    allowed = frozenset(job_filter.statuses or Status)
    if job_filter.status is not None:
        allowed &= {job_filter.status}
    return allowed & {Status.WAITING} if job_filter.wait_reason is not None else allowed


def _build_filter_values(job_filter: JobFilter) -> dict[str, Any]:
    statuses = _list_statuses(job_filter)
    return {
        "namespace": job_filter.namespace,
        "any_status": int(len(statuses) == len(Status)),
        "statuses": sorted(statuses),
        "wait_reason": job_filter.wait_reason,
        "kind": job_filter.kind,
        "queue": job_filter.queue,
        "session_id": job_filter.session_id,
        "parent_job_id": job_filter.parent_job_id,
        "since": job_filter.since,
        "until": job_filter.until,
        "text": None if job_filter.text is None else ascii_lower(job_filter.text),
    }


async def _find_few_ids(tx: Transaction, job_filter: JobFilter) -> list[str] | None:
    """The ids that contain all matches, if an index has few of them; else None."""
    if job_filter.parent_job_id is not None:
        found = await tx.rows("list_child_job_ids", parent_job_id=job_filter.parent_job_id, limit=FEW + 1)
    elif job_filter.session_id is not None and job_filter.namespace is not None:
        place = {"namespace": job_filter.namespace, "session_id": job_filter.session_id}
        found = await tx.rows("list_session_job_ids", limit=FEW + 1, **place)
    elif not (statuses := _list_statuses(job_filter)) & TERMINAL:
        reasons = list(WaitReason) if job_filter.wait_reason is None else [job_filter.wait_reason]
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
    """Lower case as both databases define it: A to Z alone."""
    return "".join(chr(ord(char) + 32) if "A" <= char <= "Z" else char for char in text)
