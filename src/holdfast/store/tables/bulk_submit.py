"""Many new jobs in one go.

Most submits bring a job that nobody has heard of: an id of its own, no request key, no session, no budget of its own, a
small input. Of such drafts a whole list is looked up by one statement and written by three (on Postgres by one),
instead of six for each. Whatever is not as plain as that, or not new, takes the way of `jobs.submit_in`, one by one in
the same transaction.

Where every statement is a round trip, a single draft, or drafts whose ids were made just now, need no transaction
around them either: all of them are new or none is, so one statement that is whole by itself is all there is. It looks
for the first draft's id alone: the others' were made a moment ago, and nobody had them. An id that is taken while it
runs is seen by its insert; there is no time for it to be taken, ended, grown old and removed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from holdfast.errors import NotFound
from holdfast.model import lease
from holdfast.model.events import JobCreated
from holdfast.model.hash_chain import EMPTY, GENESIS, Head, SealedEvent, body_of, seal
from holdfast.model.jobs import JobDraft, Submitted, created_event, request_digest
from holdfast.model.limits import PAYLOAD_INLINE_BYTES
from holdfast.model.states import Status
from holdfast.store.executor import Executor, RunAgain, Transaction, Value
from holdfast.store.tables.bulk_append import event_values
from holdfast.store.tables.payloads import need_namespace
from holdfast.store.tables.queue_limits import admit_in

Sealed = tuple[JobDraft, SealedEvent, Head]


async def submit_plain_in(tx: Transaction, drafts: Sequence[JobDraft]) -> list[Submitted] | None:
    """The jobs exist within this transaction; None: nothing was written, they are not all plain and new."""
    ids = [draft.job_id for draft in drafts if draft.job_id is not None]
    if len(drafts) < 2 or len({*ids}) < len(drafts) or not all(map(_is_plain, drafts)):
        return None
    try:
        limited = [await need_namespace(tx, namespace) for namespace in {draft.namespace for draft in drafts}]
    except NotFound:
        return None  # one by one it shows which of them is the first that cannot be
    if await tx.rows("jobs_by_ids", job_ids=ids):
        return None
    if any(limited):
        await admit_in(tx, drafts)
    state, wall = await tx.row("store_state"), await tx.row("wall_clock")
    assert state is not None, "an open store has a state"
    assert wall is not None, "there is always a time"
    sealed = [_sealed(draft, lease.floor(state[1]), wall[0]) for draft in drafts]
    if _is_large(sealed):
        return None
    if await (_write_batch if tx.batches else _write_each)(tx, sealed) < len(sealed):
        raise RunAgain  # somebody took one of the ids meanwhile
    for queue in {draft.queue for draft in drafts}:
        tx.hint(f"queue:{queue}")
    return [Submitted(job_id, created=True) for job_id in ids]


async def submit_at_once(executor: Executor, drafts: Sequence[JobDraft]) -> list[Submitted] | None:
    """The jobs exist; None: they are not as plain as that, or their ids are taken, perhaps by a try whose reply was
    lost. Nothing was written then."""
    namespaces = {draft.namespace for draft in drafts}
    if not executor.batches or len(namespaces) != 1 or not all(map(_is_plain, drafts)):
        return None
    bodies = [body_of(created_event(draft)) for draft in drafts]
    if max(map(len, bodies)) > PAYLOAD_INLINE_BYTES:
        return None
    if len(await executor.once("submit_at_once", **_unsealed(drafts, bodies))) < len(drafts):
        return None  # no such namespace, one whose queues have limits, or an id that somebody has or had
    executor.spread(f"queue:{draft.queue}" for draft in drafts)
    await asyncio.sleep(0)  # the hint leaves before whatever the caller asks next
    return [Submitted(draft.job_id or "", created=True) for draft in drafts]


def _unsealed(drafts: Sequence[JobDraft], bodies: Sequence[bytes]) -> dict[str, Value]:
    """What the database seals by its own clock."""
    return {
        **_columns(drafts),
        "each_ready_at": [draft.ready_at for draft in drafts],
        "each_body": bodies,
        "each_body_digest": [hashlib.sha256(body).digest() for body in bodies],
        "namespace": drafts[0].namespace,
        "job_id": drafts[0].job_id,
        "fences": lease.FENCES_PER_EPOCH,
        "genesis": GENESIS,
        "type": JobCreated.type,
        "version": JobCreated.version,
    }


def _is_large(sealed: Sequence[Sealed]) -> bool:
    return max(len(event.body or b"") for _, event, _ in sealed) > PAYLOAD_INLINE_BYTES


def _is_plain(draft: JobDraft) -> bool:
    return (
        draft.request_key is None and draft.session_id is None and draft.budget is None and draft.work is None
    )


def _sealed(draft: JobDraft, fence: int, at: int) -> Sealed:
    assert draft.job_id is not None
    (event,), head = seal(draft.job_id, EMPTY, fence, at, [created_event(draft)])
    return draft, event, head


def _job_values(draft: JobDraft) -> dict[str, Value]:
    return {
        "job_id": draft.job_id,
        "namespace": draft.namespace,
        "kind": draft.kind,
        "queue": draft.queue,
        "priority": draft.priority,
        "request_key": None,
        "request_digest": request_digest(draft),
        "parent_job_id": draft.parent_job_id,
        "parent_step_key": draft.parent_step_key,
        "session_id": None,
    }


async def _write_each(tx: Transaction, sealed: Sequence[Sealed]) -> int:
    """How many were new. (SQLite has one writer: all of them.)"""
    made = await tx.rows_each("insert_job", [_job_values(draft) for draft, _, _ in sealed])
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
        "insert_event", [event_values(draft.job_id or "", event) for draft, event, _ in sealed]
    )
    return len(made)


async def _write_batch(tx: Transaction, sealed: Sequence[Sealed]) -> int:
    return len(await tx.rows("submit_batch", **_batch(sealed)))


def _batch(sealed: Sequence[Sealed]) -> dict[str, Value]:
    first = sealed[0][1]
    return {
        **_columns([draft for draft, _, _ in sealed]),
        "each_ready_at": [draft.ready_at or event.at for draft, event, _ in sealed],
        "each_body": [event.body for _, event, _ in sealed],
        "each_body_digest": [event.body_digest for _, event, _ in sealed],
        "each_hash": [event.hash for _, event, _ in sealed],
        "fence": first.fence,
        "at": first.at,
        "type": first.type,
        "version": first.version,
    }


_NAMES = "job_id namespace kind queue priority request_digest parent_job_id parent_step_key".split()


def _columns(drafts: Sequence[JobDraft]) -> dict[str, Value]:
    jobs = [_job_values(draft) for draft in drafts]
    return {f"each_{name}": [job[name] for job in jobs] for name in _NAMES}
