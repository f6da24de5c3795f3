"""Bulk submit: many new jobs in one commit.

There are three submit paths, and each pays (`bench`, two cores, disks that flush):

    jobs.submit_in     any draft, one by one: request keys, sessions, budgets, work items, large inputs, known jobs
    submit_plain_in    a list of plain new drafts in a transaction: 100 of them take 24 ms instead of 32 on SQLite,
                       24 ms instead of 288 on Postgres
    submit_at_once     the same on Postgres without a transaction around it: one job takes 4.3 ms instead of 8.0

A plain draft has no request key, no session, no budget of its own, no work item and a small input. A list of them is
looked up by one statement and written by three (on Postgres by one), instead of six for each. If a draft is not plain,
or its job is not new, all are submitted one by one in the same transaction.

On Postgres, where every statement is a round trip, a single draft, or drafts whose ids were generated for this call,
need no transaction either: all of them are new or none is, so one statement, atomic by itself, is enough. It looks up
the first draft's id alone: the other ids were generated a moment ago, and no other process has them. If another process
takes an id while the statement runs, the insert conflicts. (A tombstone cannot appear meanwhile: a job would have to be
submitted, end, pass its retention time and be removed.)
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

import msgspec

from holdfast.errors import NotFound
from holdfast.model import lease
from holdfast.model.events import JobCreated
from holdfast.model.hash_chain import EMPTY, GENESIS, Head, SealedEvent, body_of, seal
from holdfast.model.jobs import JobDraft, SubmittedJob, make_created_event, make_submission
from holdfast.model.limits import PAYLOAD_INLINE_BYTES
from holdfast.model.states import Status
from holdfast.store.executor import Executor, RunAgain, Transaction, Value
from holdfast.store.sql.dialect import JOB_ARRAYS
from holdfast.store.tables.bulk_append import build_event_values
from holdfast.store.tables.payloads import need_namespace
from holdfast.store.tables.queue_limits import admit_in

Sealed = tuple[JobDraft, SealedEvent, Head]


async def submit_plain_in(tx: Transaction, drafts: Sequence[JobDraft]) -> list[SubmittedJob] | None:
    """Submit the jobs within this transaction. None: nothing was written, because not all of them are plain and new."""
    ids = [draft.job_id for draft in drafts if draft.job_id is not None]
    if len(drafts) < 2 or len({*ids}) < len(drafts) or not all(map(_is_plain, drafts)):
        return None
    try:
        limited = [await need_namespace(tx, namespace) for namespace in {draft.namespace for draft in drafts}]
    except NotFound:
        return None  # one by one, the first draft without a namespace decides the error
    if await tx.rows("find_jobs_by_ids", job_ids=ids):
        return None
    if any(limited):
        await admit_in(tx, drafts)
    bodies = [body_of(make_created_event(draft)) for draft in drafts]
    if max(map(len, bodies)) > PAYLOAD_INLINE_BYTES:
        return None
    if await (_write_columns if tx.batches else _write_rows)(tx, drafts, bodies) < len(drafts):
        raise RunAgain  # another process took one of the ids meanwhile
    for queue in {draft.queue for draft in drafts}:
        tx.hint(f"queue:{queue}")
    return [SubmittedJob(job_id, created=True) for job_id in ids]


async def submit_at_once(executor: Executor, drafts: Sequence[JobDraft]) -> list[SubmittedJob] | None:
    """Submit the jobs in one statement. None: they are not plain, or an id is taken, perhaps by a try whose reply was
    lost; nothing was written."""
    namespaces = {draft.namespace for draft in drafts}
    if not executor.batches or len(namespaces) != 1 or not all(map(_is_plain, drafts)):
        return None
    bodies = [body_of(make_created_event(draft)) for draft in drafts]
    if max(map(len, bodies)) > PAYLOAD_INLINE_BYTES:
        return None
    if len(
        await executor.run_statement("submit_jobs", **_build_columns(drafts, bodies, admitted=False))
    ) < len(drafts):
        return None  # no such namespace, one whose queues have limits, or an id that another job has or had
    executor.send_wakeups(f"queue:{draft.queue}" for draft in drafts)
    await asyncio.sleep(0)  # the hint is sent before the next request of the caller
    return [SubmittedJob(draft.job_id or "", created=True) for draft in drafts]


def _is_plain(draft: JobDraft) -> bool:
    return (
        draft.request_key is None and draft.session_id is None and draft.budget is None and draft.work is None
    )


def _seal_created(draft: JobDraft, fence: int, at: int) -> Sealed:
    assert draft.job_id is not None
    (event,), head = seal(draft.job_id, EMPTY, fence, at, [make_created_event(draft)])
    return draft, event, head


def build_job_values(draft: JobDraft) -> dict[str, Value]:
    """The values of the row of `jobs`; the database dates it."""
    assert draft.job_id is not None
    values = msgspec.structs.asdict(make_submission(draft, draft.job_id, created_at=0))
    del values["created_at"]
    return values


async def _write_rows(tx: Transaction, drafts: Sequence[JobDraft], _bodies: Sequence[bytes]) -> int:
    """Insert the jobs row by row; returns how many were new. (SQLite has one writer: all of them.)"""
    state, wall = await tx.row("get_store_state"), await tx.row("read_wall_clock")
    assert state is not None, "an open store has a state"
    assert wall is not None, "there is always a time"
    sealed = [_seal_created(draft, lease.floor(state[1]), wall[0]) for draft in drafts]
    inserted = await tx.rows_each("insert_job", [build_job_values(draft) for draft in drafts])
    heads: list[dict[str, Value]] = [
        {
            "job_id": draft.job_id,
            "namespace": draft.namespace,
            "queue": draft.queue,
            "kind": draft.kind,
            "priority": draft.priority,
            "status": Status.PENDING,
            "wait_reason": None,
            "ready_at": draft.ready_at or event.at,
            "session_id": None,
            "session_slot": None,
            "head_hash": head.hash,
            "fence": event.fence,
        }
        for draft, event, head in sealed
    ]
    await tx.rows_each("insert_head", heads)
    await tx.rows_each(
        "insert_event", [build_event_values(draft.job_id or "", event) for draft, event, _ in sealed]
    )
    return len(inserted)


async def _write_columns(tx: Transaction, drafts: Sequence[JobDraft], bodies: Sequence[bytes]) -> int:
    """Insert the jobs by `submit_jobs`, once for each namespace; returns how many were new."""
    inserted = 0
    for namespace in sorted({draft.namespace for draft in drafts}):
        places = [nth for nth, draft in enumerate(drafts) if draft.namespace == namespace]
        columns = _build_columns(
            [drafts[nth] for nth in places], [bodies[nth] for nth in places], admitted=True
        )
        inserted += len(await tx.rows("submit_jobs", **columns))
    return inserted


def _build_columns(
    drafts: Sequence[JobDraft], bodies: Sequence[bytes], *, admitted: bool
) -> dict[str, Value]:
    """Jobs of one namespace, as columns. The database dates and hashes their first events."""
    jobs = [build_job_values(draft) for draft in drafts]
    return {
        **{f"each_{name}": [job[name] for job in jobs] for name in JOB_ARRAYS},
        "each_ready_at": [draft.ready_at for draft in drafts],
        "each_body": bodies,
        "each_body_digest": [hashlib.sha256(body).digest() for body in bodies],
        "namespace": drafts[0].namespace,
        "job_id": drafts[0].job_id,
        "admitted": int(admitted),
        "fences": lease.FENCES_PER_EPOCH,
        "genesis": GENESIS,
        "type": JobCreated.type,
        "version": JobCreated.version,
    }
