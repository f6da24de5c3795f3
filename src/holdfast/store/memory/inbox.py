"""Inbox in memory: the queued input of sessions, and its claims.

The selection in `_take` follows the text of the contract and does not use `model.inbox.select_candidates`: if one of
them is wrong, this store and the others disagree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.errors import ClaimLost, Fenced, NotFound
from holdfast.model.inbox import (
    BatchDraft,
    BatchState,
    Boundary,
    Claim,
    Completion,
    Delivery,
    InboxBatch,
    Item,
    SlotPolicy,
    check_claimer,
    check_delivery,
    check_draft,
    claim_id,
)
from holdfast.model.jobs import DEFAULT_NAMESPACE, JobDraft
from holdfast.model.states import Status
from holdfast.store.memory.blobs import keep_large
from holdfast.store.memory.jobs import submit
from holdfast.store.memory.state import (
    BatchRow,
    ClaimHold,
    MemoryState,
    MemoryTransaction,
    SessionRow,
    Tables,
    pack_struct,
    unpack_struct,
)


def _enqueue(work: MemoryTransaction, draft: BatchDraft, namespace: str) -> InboxBatch:
    work.need_namespace(namespace)
    session = work.tables.sessions.get((namespace, draft.session_id), SessionRow())
    row = _find_duplicate(session, draft)
    if row is None:
        row = _make_row(work, draft, session.enqueued + 1)
        for item in row.batch.items:
            keep_large(work, namespace, item.payload)
        work.tables.sessions[namespace, draft.session_id] = _add_row(session, row)
        work.hint(f"session:{draft.session_id}")
    return _to_batch(row)


class MemoryInbox:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def enqueue(self, draft: BatchDraft, *, namespace: str = DEFAULT_NAMESPACE) -> InboxBatch:
        check_draft(draft)
        with self._state.transaction() as work:
            return _enqueue(work, draft, namespace)

    async def deliver(self, draft: BatchDraft, job: JobDraft) -> InboxBatch:
        check_delivery(draft, job)
        with self._state.transaction() as work:
            job_id = submit(work, job, admitting=True).job_id
            with_id = msgspec.structs.replace(draft, batch_id=job_id, job_id=job_id)
            return _enqueue(work, with_id, job.namespace)

    async def find(
        self, session_id: str, batch_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> InboxBatch | None:
        session = self._state.tables.sessions.get((namespace, session_id), SessionRow())
        row = session.batches.get(batch_id)
        return None if row is None else _to_batch(row)

    async def list_pending(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[InboxBatch]:
        tick, boot = self._state.clock.tick_us(), self._state.clock.boot()
        queued = _list_queued(self._state.tables, namespace, session_id)
        return [_to_batch(row) for row in queued if not _is_live(row, tick, boot)]

    async def cancel(
        self, session_id: str, batch_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> InboxBatch | None:
        with self._state.transaction() as work:
            session = work.tables.sessions.get((namespace, session_id), SessionRow())
            row = session.batches.get(batch_id)
            if row is None or row.batch.state is not BatchState.QUEUED or _is_live(row, work.tick, work.boot):
                return None
            _put(work, namespace, session_id, [_settle(row, BatchState.CANCELLED, "")])
            return msgspec.structs.replace(_to_batch(row), state=BatchState.CANCELLED)

    async def claim(
        self,
        session_id: str,
        owner: str,
        boundary: Boundary,
        *,
        ttl_us: int,
        max_batches: int,
        token: str,
        fence: int | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Claim | None:
        check_claimer(owner, token)
        with self._state.transaction() as work:
            if fence is not None:
                _must_run_under(work, owner, fence)
            held = _list_held(work, namespace, session_id, token)
            if held:  # an earlier claim with this token, whose reply was lost
                return _make_claim(held)
            taken = _take(_list_candidates(work, namespace, session_id), boundary, max_batches)
            return _claim_batches(work, namespace, session_id, taken, owner, token, ttl_us) if taken else None

    async def claim_exact(
        self,
        session_id: str,
        owner: str,
        boundary: Boundary,
        batch_ids: Sequence[str],
        *,
        ttl_us: int,
        token: str,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Claim | None:
        check_claimer(owner, token)
        requested = sorted(set(batch_ids))
        with self._state.transaction() as work:
            held = _list_held(work, namespace, session_id, token)
            if held:
                return _make_claim(held) if _list_ids(held) == requested else None
            taken = _take(_list_candidates(work, namespace, session_id), boundary, len(requested))
            if not taken or _list_ids(taken) != requested:
                return None
            return _claim_batches(work, namespace, session_id, taken, owner, token, ttl_us)

    async def renew(self, claim: Claim, ttl_us: int, *, namespace: str = DEFAULT_NAMESPACE) -> Claim:
        with self._state.transaction() as work:
            expires_at = work.tick + ttl_us
            rows = check_owned(work, namespace, claim.session_id, claim.completion())
            _put(work, namespace, claim.session_id, (_extend(row, work.boot, expires_at) for row in rows))
            return msgspec.structs.replace(claim, expires_at=expires_at)

    async def abandon(self, claim: Claim, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        with self._state.transaction() as work:
            rows = [_find(work, namespace, claim.session_id, batch.batch_id) for batch in claim.batches]
            owned = [row for row in rows if row is not None and _is_owned(row, claim.claim_id, claim.token)]
            _put(work, namespace, claim.session_id, (dataclasses.replace(row, hold=None) for row in owned))

    # Last, because below a method of this name `list[…]` would mean the method.
    async def list(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[InboxBatch]:
        return [_to_batch(row) for row in _list_queued(self._state.tables, namespace, session_id)]


def leave_inbox(work: MemoryTransaction, namespace: str, session_id: str, job_id: str) -> None:
    """Settle the inbox of a job that ended without a commit: cancel its own message, unless another turn has claimed
    it, and release the batches that it claimed."""
    rows = _list_queued(work.tables, namespace, session_id)
    held = [row for row in rows if row.hold is not None and row.hold.owner == job_id]
    _put(work, namespace, session_id, (dataclasses.replace(row, hold=None) for row in held))
    unclaimed = [row for row in rows if row.hold is None or row.hold.owner == job_id]
    own = [row for row in unclaimed if row.batch.batch_id == job_id]
    _put(work, namespace, session_id, (_settle(row, BatchState.CANCELLED, "") for row in own))


# ── for turn commits ──────────────────────────────────────────────────────────────────────────────


def check_owned(
    work: MemoryTransaction, namespace: str, session_id: str, completion: Completion
) -> list[BatchRow]:
    """The batches, if all are still queued under this claim and token; else raises ClaimLost. The expiry of the claim
    is not checked."""
    rows = []
    for batch_id in completion.batch_ids:
        row = _find(work, namespace, session_id, batch_id)
        if row is None or not _is_owned(row, completion.claim_id, completion.token):
            raise ClaimLost(f"batch {batch_id!r} is no longer held by claim {completion.claim_id!r}")
        rows.append(row)
    return rows


def complete(
    work: MemoryTransaction, namespace: str, session_id: str, rows: Iterable[BatchRow], turn_id: str
) -> None:
    """Settle the batches by this turn: they leave the queue and lose their items."""
    _put(work, namespace, session_id, (_settle(row, BatchState.COMPLETED, turn_id) for row in rows))


# ── selecting batches ─────────────────────────────────────────────────────────────────────────────


def _list_queued(tables: Tables, namespace: str, session_id: str) -> list[BatchRow]:
    session = tables.sessions.get((namespace, session_id), SessionRow())
    rows = [row for row in session.batches.values() if row.batch.state is BatchState.QUEUED]
    return sorted(rows, key=lambda row: row.batch.enqueue_seq)


def _list_candidates(work: MemoryTransaction, namespace: str, session_id: str) -> list[BatchRow]:
    """Available batches without a live claim, in enqueue order."""
    return [
        row
        for row in _list_queued(work.tables, namespace, session_id)
        if row.batch.available_at <= work.wall and not _is_live(row, work.tick, work.boot)
    ]


def _take(candidates: list[BatchRow], boundary: Boundary, max_batches: int) -> list[BatchRow]:
    """The batches that one claim takes: from the first candidate on, as long as each may share a claim with the
    first."""
    taken: list[BatchRow] = []
    for row in candidates:
        batch = row.batch
        if not taken:
            waits = batch.delivery is Delivery.AFTER_CURRENT_TURN_COMMIT
            fits = not (waits and boundary is Boundary.ACTIVE_TURN_CHECKPOINT)
        else:
            first = taken[0].batch
            both_join = first.slot is SlotPolicy.JOIN and batch.slot is SlotPolicy.JOIN
            fits = both_join and (batch.delivery, batch.merge_key) == (first.delivery, first.merge_key)
        if not fits or len(taken) >= max_batches:
            break
        taken.append(row)
    return taken


def _must_run_under(work: MemoryTransaction, job_id: str, fence: int) -> None:
    row = work.tables.jobs.get(job_id)
    if row is None:
        raise NotFound(f"there is no job {job_id!r}")
    if row.head.status is not Status.RUNNING or row.head.fence != fence:
        raise Fenced(f"job {job_id} is {row.head.status} at fence {row.head.fence}; the claimer has {fence}")


def _list_held(work: MemoryTransaction, namespace: str, session_id: str, token: str) -> list[BatchRow]:
    """The batches that this token holds now, in enqueue order."""
    return [
        row
        for row in _list_queued(work.tables, namespace, session_id)
        if row.hold is not None and row.hold.token == token and _is_live(row, work.tick, work.boot)
    ]


def _is_live(row: BatchRow, tick: int, boot: str) -> bool:
    return row.hold is not None and row.hold.boot == boot and row.hold.expires_at > tick


def _is_owned(row: BatchRow, claim: str, token: str) -> bool:
    queued = row.batch.state is BatchState.QUEUED
    return queued and row.hold is not None and (row.hold.claim_id, row.hold.token) == (claim, token)


def _find_duplicate(session: SessionRow, draft: BatchDraft) -> BatchRow | None:
    """The batch of the same source key, else the one of the same id."""
    batch_id = session.sources.get(draft.source_key) if draft.source_key is not None else None
    if batch_id is None:
        batch_id = draft.batch_id
    return session.batches.get(batch_id) if batch_id is not None else None


# ── changes ───────────────────────────────────────────────────────────────────────────────────────


def _make_row(work: MemoryTransaction, draft: BatchDraft, enqueue_seq: int) -> BatchRow:
    batch_id = draft.batch_id if draft.batch_id is not None else work.ids.new("batch")
    items = [Item(f"{batch_id}.{index}", item.kind, item.payload) for index, item in enumerate(draft.items)]
    return BatchRow(
        batch=InboxBatch(
            batch_id=batch_id,
            session_id=draft.session_id,
            enqueue_seq=enqueue_seq,
            delivery=draft.delivery,
            slot=draft.slot,
            merge_key=draft.merge_key,
            source_key=draft.source_key,
            available_at=draft.available_at,
            enqueued_at=work.wall,
            state=BatchState.QUEUED,
            items=tuple(pack_struct(item, "payload") for item in items),
            job_id=draft.job_id,
        )
    )


def _add_row(session: SessionRow, row: BatchRow) -> SessionRow:
    batch = row.batch
    sources = {} if batch.source_key is None else {batch.source_key: batch.batch_id}
    return dataclasses.replace(
        session,
        enqueued=batch.enqueue_seq,
        batches={**session.batches, batch.batch_id: row},
        sources={**session.sources, **sources},
    )


def _claim_batches(
    work: MemoryTransaction,
    namespace: str,
    session_id: str,
    taken: list[BatchRow],
    owner: str,
    token: str,
    ttl_us: int,
) -> Claim:
    """Claim the batches, each at its next fence."""
    hold = ClaimHold(
        claim_id=claim_id(taken[0].batch.batch_id, taken[0].fence + 1),
        owner=owner,
        token=token,
        boot=work.boot,
        claimed_at=work.wall,
        expires_at=work.tick + ttl_us,
    )
    rows = [dataclasses.replace(row, fence=row.fence + 1, hold=hold) for row in taken]
    _put(work, namespace, session_id, rows)
    return _make_claim(rows)


def _make_claim(rows: list[BatchRow]) -> Claim:
    hold = rows[0].hold
    assert hold is not None, "a claim is made of batches that are held"
    return Claim(
        claim_id=hold.claim_id,
        session_id=rows[0].batch.session_id,
        owner=hold.owner,
        token=hold.token,
        fence=rows[0].fence,
        claimed_at=hold.claimed_at,
        expires_at=hold.expires_at,
        batches=tuple(_to_batch(row) for row in rows),
    )


def _extend(row: BatchRow, boot: str, expires_at: int) -> BatchRow:
    assert row.hold is not None, "only a held batch can be held longer"
    return dataclasses.replace(row, hold=dataclasses.replace(row.hold, boot=boot, expires_at=expires_at))


def _settle(row: BatchRow, state: BatchState, settled_by: str) -> BatchRow:
    batch = msgspec.structs.replace(row.batch, state=state, settled_by=settled_by, items=())
    return dataclasses.replace(row, batch=batch, hold=None)


def _find(work: MemoryTransaction, namespace: str, session_id: str, batch_id: str) -> BatchRow | None:
    return work.tables.sessions.get((namespace, session_id), SessionRow()).batches.get(batch_id)


def _put(work: MemoryTransaction, namespace: str, session_id: str, rows: Iterable[BatchRow]) -> None:
    changed = {row.batch.batch_id: row for row in rows}
    if changed:
        session = work.tables.sessions[namespace, session_id]
        batches = {**session.batches, **changed}
        work.tables.sessions[namespace, session_id] = dataclasses.replace(session, batches=batches)


def _list_ids(rows: list[BatchRow]) -> list[str]:
    return sorted(row.batch.batch_id for row in rows)


def _to_batch(row: BatchRow) -> InboxBatch:
    return msgspec.structs.replace(
        row.batch, items=tuple(unpack_struct(item, "payload") for item in row.batch.items)
    )
