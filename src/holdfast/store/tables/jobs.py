"""Jobs over SQL."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.errors import KeyReused, NotFound
from holdfast.model import lease
from holdfast.model.hash_chain import EMPTY, SealedEvent, seal
from holdfast.model.ids import IdSource
from holdfast.model.jobs import (
    JobDraft,
    JobFilter,
    JobHead,
    JobNames,
    JobRecord,
    SubmittedJob,
    check_draft,
    decode_job_cursor,
    encode_job_cursor,
    make_created_event,
    request_digest,
)
from holdfast.model.page import Page
from holdfast.model.states import Slot, Status, WaitReason
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.tables.budgets import open_in
from holdfast.store.tables.bulk_submit import build_job_values, submit_at_once, submit_plain_in
from holdfast.store.tables.job_heads import head_of
from holdfast.store.tables.job_listing import list_in, names_in, needing_person_in, tally_in
from holdfast.store.tables.payloads import need_namespace, store_body, to_enum
from holdfast.store.tables.queue_limits import admit_in
from holdfast.store.tables.work_items import insert_work_in

BRIEF: Final = 16
"""Up to this many events are read on the event loop, without a change of thread."""

_HEAD: Final = len(JobHead.__struct_fields__)


class SqlJobs:
    def __init__(self, executor: Executor, ids: IdSource) -> None:
        self._executor = executor
        self._ids = ids

    async def submit(self, draft: JobDraft) -> SubmittedJob:
        (submitted,) = await self.submit_many([draft])
        return submitted

    async def submit_many(self, drafts: Sequence[JobDraft]) -> list[SubmittedJob]:
        with_ids = [self._assign_id(draft) for draft in drafts]
        # A single job is written as a whole or not at all. Of several with ids from the caller, only some may be new.
        if len(with_ids) == 1 or (with_ids and all(draft.job_id is None for draft in drafts)):
            submitted = await submit_at_once(self._executor, with_ids)
            if submitted is not None:
                return submitted

        async def work(tx: Transaction) -> list[SubmittedJob]:
            submitted = await submit_plain_in(tx, with_ids)
            if submitted is not None:
                return submitted
            return [await submit_in(tx, draft, admitting=True) for draft in with_ids]

        results = await self._executor.write(work)
        # No other call has an id that was generated for this one: a try whose reply was lost made a job found under it.
        is_generated = [draft.job_id is None for draft in drafts]
        return [
            SubmittedJob(
                result.job_id, created=result.created or (generated and result.job_id == draft.job_id)
            )
            for result, draft, generated in zip(results, with_ids, is_generated, strict=True)
        ]

    def _assign_id(self, draft: JobDraft) -> JobDraft:
        """The checked draft with an id, so that running the work twice makes one job."""
        check_draft(draft)
        if draft.job_id is not None:
            return draft
        return msgspec.structs.replace(draft, job_id=self._ids.new("job"))

    async def get(self, job_id: str) -> JobRecord:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("get_job", job_id=job_id)

        return _to_record(_require_row(await self._executor.read(work, brief=True), job_id))

    async def find(self, namespace: str, request_key: str) -> JobRecord | None:
        async def work(tx: Transaction) -> Row | None:
            known = await tx.row("find_job_by_request", namespace=namespace, request_key=request_key)
            return None if known is None else await tx.row("get_job", job_id=known[0])

        row = await self._executor.read(work, brief=True)
        return None if row is None else _to_record(row)

    async def head(self, job_id: str) -> JobHead:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("get_head", job_id=job_id)

        return head_of(_require_row(await self._executor.read(work, brief=True), job_id))

    async def read_with_events(self, job_id: str, *, events: int) -> tuple[JobHead, list[SealedEvent]]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("get_head_with_events", job_id=job_id, events=events)

        rows = await self._executor.read(work, brief=events <= BRIEF)
        head = head_of(_require_row(rows[0] if rows else None, job_id)[:_HEAD])
        sealed = [SealedEvent(*row[_HEAD:]) for row in rows if row[_HEAD] is not None]
        return head, sorted(sealed, key=lambda event: event.seq)

    async def counts(self, namespace: str | None = None) -> dict[Status, int]:
        async def work(tx: Transaction) -> dict[Status, int]:
            return {
                to_enum(Status, row[0]): row[1] for row in await tx.rows("count_jobs", namespace=namespace)
            }

        return await self._executor.read(work)

    async def list(
        self, job_filter: JobFilter, *, limit: int = 100, cursor: str | None = None
    ) -> Page[JobRecord]:
        before = decode_job_cursor(cursor)

        async def work(tx: Transaction) -> Sequence[Row]:
            return await list_in(tx, job_filter, before=before, limit=limit + 1)

        records = [_to_record(row) for row in await self._executor.read(work)]
        more = encode_job_cursor(records[limit - 1]) if len(records) > limit > 0 else None
        return Page(tuple(records[:limit]), more)

    async def list_needing_person(
        self, namespace: str | None = None, *, limit: int = 100, after: str = ""
    ) -> builtins.list[str]:
        return await self._executor.read(lambda tx: needing_person_in(tx, namespace, limit, after))

    async def tally(self, job_filter: JobFilter) -> dict[tuple[Status, WaitReason | None], int]:
        return await self._executor.read(lambda tx: tally_in(tx, job_filter))

    async def names(self, namespace: str | None = None, *, limit: int = 200) -> JobNames:
        return await self._executor.read(lambda tx: names_in(tx, namespace, limit))


async def submit_in(tx: Transaction, draft: JobDraft, *, admitting: bool = False) -> SubmittedJob:
    """Submit the job within this transaction; a repeat of a known request returns its job. The draft has a job id.

    `admitting`: the request comes from outside, and the limits of its queue apply.
    """
    assert draft.job_id is not None, (
        "a draft gets its id before the transaction, so that a retry is the same job"
    )
    digest = request_digest(draft)
    limited = await need_namespace(tx, draft.namespace)
    known = await _find_earlier(tx, draft, digest)
    if known is not None:
        return known
    if admitting and limited:
        await admit_in(tx, [draft])
    inserted = await tx.row("insert_job", **build_job_values(draft))
    if inserted is None:
        known = await _find_earlier(tx, draft, digest)
        assert known is not None, "an insert that conflicts has something to conflict with"
        return known
    await _begin(tx, draft, created_at=inserted[0])
    return SubmittedJob(draft.job_id, created=True)


async def _find_earlier(tx: Transaction, draft: JobDraft, digest: bytes) -> SubmittedJob | None:
    """The job that an earlier request with this key or id made. Raises KeyReused if that request was another one."""
    if draft.request_key is not None:
        row = await tx.row("find_job_by_request", namespace=draft.namespace, request_key=draft.request_key)
        if row is not None:
            known = row[1] == digest
            return _check_same_request(
                row[0], row[1], digest, f"request key {draft.request_key!r}", same=known
            )
    row = await tx.row("find_job_by_id", job_id=draft.job_id)
    if row is None:
        return None
    assert draft.job_id is not None
    known = (row[0], row[1]) == (draft.namespace, digest)
    stored = row[1] if row[0] == draft.namespace else b""  # the request of another namespace is not disclosed
    return _check_same_request(draft.job_id, stored, digest, f"job id {draft.job_id!r}", same=known)


def _check_same_request(job_id: str, stored: bytes, sent: bytes, key: str, *, same: bool) -> SubmittedJob:
    if not same:
        msg = f"{key} belongs to another request"
        raise KeyReused(msg, stored=stored.hex(), sent=sent.hex())
    return SubmittedJob(job_id, created=False)


async def _begin(tx: Transaction, draft: JobDraft, *, created_at: int) -> None:
    """Write the first event and the head of the new job."""
    assert draft.job_id is not None
    state = await tx.row("get_store_state")
    assert state is not None, "an open store has a state"
    fence = lease.floor(state[1])
    (event,), head = seal(draft.job_id, EMPTY, fence, created_at, [make_created_event(draft)])
    body = await store_body(tx, draft.namespace, event.body or b"", event.body_digest)
    slot = await _choose_slot(tx, draft)
    behind = slot is Slot.BEHIND
    await tx.run(
        "insert_head",
        job_id=draft.job_id,
        namespace=draft.namespace,
        queue=draft.queue,
        kind=draft.kind,
        priority=draft.priority,
        status=Status.WAITING if behind else Status.PENDING,
        wait_reason=WaitReason.JOINED if behind else None,
        ready_at=draft.ready_at or created_at,
        session_id=draft.session_id,
        session_slot=slot,
        head_hash=head.hash,
        fence=fence,
    )
    await tx.run(
        "insert_event",
        job_id=draft.job_id,
        seq=event.seq,
        type=event.type,
        version=event.version,
        fence=event.fence,
        at=event.at,
        body=body.inline,
        body_digest=body.digest,
        hash=event.hash,
    )
    await open_in(tx, draft, created_at)
    if draft.work is not None:
        await insert_work_in(tx, draft.job_id, draft.namespace, draft.work)
    if not behind:
        tx.hint(f"queue:{draft.queue}")


async def _choose_slot(tx: Transaction, draft: JobDraft) -> Slot | None:
    """The job's slot in its session, decided under the lock of the session."""
    if draft.session_id is None:
        return None
    place = {"namespace": draft.namespace, "session_id": draft.session_id}
    await tx.run("ensure_session", **place)
    await tx.row("lock_session", **place)
    return Slot.LIVE if await tx.row("find_live_job", **place) is None else Slot.BEHIND


def _require_row(row: Row | None, job_id: str) -> Row:
    if row is None:
        msg = f"there is no job {job_id!r}"
        raise NotFound(msg)
    return row


def _to_record(row: Row) -> JobRecord:
    values = dict(zip(JobRecord.__struct_fields__, row, strict=True))
    values["status"] = to_enum(Status, values["status"])
    if values["wait_reason"] is not None:
        values["wait_reason"] = to_enum(WaitReason, values["wait_reason"])
    if values["status"] is not Status.RUNNING:
        values["worker"] = None
    return JobRecord(**values)
