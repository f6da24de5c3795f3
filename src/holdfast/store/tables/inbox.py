"""Inbox over SQL. The model decides which batches a claim takes; the session's row is the lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from holdfast.errors import ClaimLost
from holdfast.model import canonical, inbox
from holdfast.model.ids import IdSource
from holdfast.model.inbox import (
    BatchDraft,
    BatchState,
    Boundary,
    Candidate,
    Claim,
    Delivery,
    InboxBatch,
    Item,
    SlotPolicy,
)
from holdfast.model.jobs import DEFAULT_NAMESPACE, JobDraft, check_draft, check_fence
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.tables.job_heads import lock_head
from holdfast.store.tables.jobs import submit_in
from holdfast.store.tables.payloads import need_namespace, read_json, store_body, to_enum


class SqlInbox:
    def __init__(self, executor: Executor, ids: IdSource) -> None:
        self._executor = executor
        self._ids = ids

    async def enqueue(self, draft: BatchDraft, *, namespace: str = DEFAULT_NAMESPACE) -> InboxBatch:
        inbox.check_draft(draft)
        with_id = draft if draft.batch_id else msgspec.structs.replace(draft, batch_id=self._ids.new("batch"))

        async def work(tx: Transaction) -> InboxBatch:
            return await enqueue_in(tx, with_id, namespace)

        return await self._executor.write(work)

    async def deliver(self, draft: BatchDraft, job: JobDraft) -> InboxBatch:
        inbox.check_delivery(draft, job)
        with_id = job if job.job_id else msgspec.structs.replace(job, job_id=self._ids.new("job"))
        check_draft(with_id)

        async def work(tx: Transaction) -> InboxBatch:
            job_id = (await submit_in(tx, with_id, admitting=True)).job_id
            return await enqueue_in(
                tx, msgspec.structs.replace(draft, batch_id=job_id, job_id=job_id), job.namespace
            )

        return await self._executor.write(work)

    async def find(
        self, session_id: str, batch_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> InboxBatch | None:
        async def work(tx: Transaction) -> InboxBatch | None:
            return await _find_batch(tx, batch_id, {"namespace": namespace, "session_id": session_id})

        return await self._executor.read(work, snapshot=True)

    async def list_pending(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[InboxBatch]:
        return await self._list_batches("list_pending_batches", session_id, namespace)

    async def _list_batches(self, statement: str, session_id: str, namespace: str) -> list[InboxBatch]:
        async def work(tx: Transaction) -> list[InboxBatch]:
            place = {"namespace": namespace, "session_id": session_id}
            items = defaultdict(list)
            for batch_id, *item in await tx.rows("list_session_items", **place):
                items[batch_id].append(_to_item(batch_id, item))
            return [_to_batch(row, items[row[0]]) for row in await tx.rows(statement, **place)]

        return await self._executor.read(work, snapshot=True)

    async def cancel(
        self, session_id: str, batch_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> InboxBatch | None:
        place = {"namespace": namespace, "session_id": session_id, "batch_id": batch_id}

        tried: list[InboxBatch] = []

        async def work(tx: Transaction) -> InboxBatch | None:
            items = [_to_item(batch_id, row) for row in await tx.rows("list_batch_items", **place)]
            cancelled = await tx.row("cancel_batch", **place)
            row = await tx.row("get_batch", **place)
            if cancelled is None:
                # An earlier try of this call, whose reply was lost, may have cancelled it.
                is_cancelled = row is not None and _to_batch(row, items).state is BatchState.CANCELLED
                return tried[-1] if tried and is_cancelled else None
            assert row is not None, "a batch is never deleted"
            await tx.run("remove_items", **place)
            tried.append(msgspec.structs.replace(_to_batch(row, items), settled_by=None))
            return tried[-1]

        return await self._executor.write(work)

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
        inbox.check_claimer(owner, token)

        async def work(tx: Transaction) -> Claim | None:
            if fence is not None:
                check_fence(await lock_head(tx, owner), fence)
            candidates = await _list_claimable(tx, session_id, namespace)
            taken = inbox.select_candidates(candidates, boundary, max_batches)
            return await _claim_in(tx, session_id, owner, taken, ttl_us, token, namespace)

        return await self._executor.write(work)

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
        inbox.check_claimer(owner, token)
        requested = set(batch_ids)

        async def work(tx: Transaction) -> Claim | None:
            candidates = await _list_claimable(tx, session_id, namespace)
            taken = inbox.select_candidates(candidates, boundary, len(requested))
            # Compared before anything is claimed: a rejected exact claim changes nothing.
            if {candidate.batch_id for candidate in taken} != requested:
                taken = ()
            claim = await _claim_in(tx, session_id, owner, taken, ttl_us, token, namespace)
            same = claim is not None and {batch.batch_id for batch in claim.batches} == requested
            return claim if same else None

        return await self._executor.write(work)

    async def renew(self, claim: Claim, ttl_us: int, *, namespace: str = DEFAULT_NAMESPACE) -> Claim:
        async def work(tx: Transaction) -> Claim:
            expires_at = claim.expires_at
            for batch in claim.batches:
                row = await tx.row(
                    "renew_batch", ttl_us=ttl_us, **_build_claim_values(claim, batch.batch_id, namespace)
                )
                if row is None:
                    msg = f"claim {claim.claim_id} no longer holds batch {batch.batch_id}"
                    raise ClaimLost(msg)
                expires_at = row[0]
            return msgspec.structs.replace(claim, expires_at=expires_at)

        return await self._executor.write(work)

    async def abandon(self, claim: Claim, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        async def work(tx: Transaction) -> None:
            for batch in claim.batches:
                await tx.row("release_batch", **_build_claim_values(claim, batch.batch_id, namespace))
            tx.hint(f"session:{claim.session_id}")

        await self._executor.write(work)

    async def list(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[InboxBatch]:
        return await self._list_batches("list_queued_batches", session_id, namespace)


async def enqueue_in(tx: Transaction, draft: BatchDraft, namespace: str) -> InboxBatch:
    """Enqueue the batch within this transaction; a known source key or id returns the stored batch."""
    await need_namespace(tx, namespace)
    assert draft.batch_id is not None, "a batch gets its id before the transaction"
    place = {"namespace": namespace, "session_id": draft.session_id}
    await tx.run("ensure_session", **place)
    await tx.row("lock_session", **place)
    known = None
    if draft.source_key is not None:
        known = await tx.row("find_batch_by_source", source_key=draft.source_key, **place)
    batch_id = draft.batch_id if known is None else str(known[0])
    stored = await _find_batch(tx, batch_id, place)
    if stored is not None:
        return stored
    seq = await tx.row("advance_enqueue_seq", **place)
    assert seq is not None, "the session's row was made above"
    await tx.run(
        "insert_batch",
        batch_id=batch_id,
        enqueue_seq=seq[0],
        source_key=draft.source_key,
        delivery=draft.delivery,
        slot=draft.slot,
        merge_key=draft.merge_key,
        available_at=draft.available_at,
        job_id=draft.job_id,
        **place,
    )
    for index, item in enumerate(draft.items):
        body = await store_body(tx, namespace, canonical.encode(item.payload))
        await tx.run(
            "insert_item",
            batch_id=batch_id,
            item_index=index,
            kind=item.kind,
            body=body.inline,
            body_digest=body.digest,
            **place,
        )
    tx.hint(f"session:{draft.session_id}")
    stored = await _find_batch(tx, batch_id, place)
    assert stored is not None, "the batch was inserted above"
    return stored


async def _find_batch(tx: Transaction, batch_id: str, place: dict[str, str]) -> InboxBatch | None:
    row = await tx.row("get_batch", batch_id=batch_id, **place)
    if row is None:
        return None
    items = [
        _to_item(batch_id, item) for item in await tx.rows("list_batch_items", batch_id=batch_id, **place)
    ]
    return _to_batch(row, items)


async def _list_claimable(tx: Transaction, session_id: str, namespace: str) -> list[Candidate]:
    """The claimable batches, read under the lock of the session: two claimers never choose from the same state."""
    place = {"namespace": namespace, "session_id": session_id}
    await tx.row("lock_session", **place)
    return [
        Candidate(batch_id, seq, to_enum(Delivery, delivery), to_enum(SlotPolicy, slot), merge_key, fence)
        for batch_id, seq, delivery, slot, merge_key, fence in await tx.rows(
            "list_claimable_batches", **place
        )
    ]


async def _claim_in(
    tx: Transaction,
    session_id: str,
    owner: str,
    taken: Sequence[Candidate],
    ttl_us: int,
    token: str,
    namespace: str,
) -> Claim | None:
    place = {"namespace": namespace, "session_id": session_id}
    known = await tx.rows("find_claim_by_token", token=token, **place)
    if known:
        _, claim_id, owner, fence, claimed_at, expires_at = known[0]
        batch_ids = [row[0] for row in known]
    elif taken:
        fence = taken[0].claim_fence + 1
        claim_id = inbox.claim_id(taken[0].batch_id, fence)
        batch_ids = [candidate.batch_id for candidate in taken]
        claimed_at = expires_at = 0
        for batch_id in batch_ids:
            row = await tx.row(
                "claim_batch",
                batch_id=batch_id,
                claim_id=claim_id,
                owner=owner,
                token=token,
                ttl_us=ttl_us,
                **place,
            )
            assert row is not None, "the batch was chosen under the session's lock"
            claimed_at, expires_at = row
    else:
        return None
    batches = [await _find_batch(tx, batch_id, place) for batch_id in batch_ids]
    return Claim(
        claim_id=claim_id,
        session_id=session_id,
        owner=owner,
        token=token,
        fence=fence,
        claimed_at=claimed_at,
        expires_at=expires_at,
        batches=tuple(batch for batch in batches if batch is not None),
    )


def _build_claim_values(claim: Claim, batch_id: str, namespace: str) -> dict[str, str]:
    return {
        "namespace": namespace,
        "session_id": claim.session_id,
        "batch_id": batch_id,
        "claim_id": claim.claim_id,
        "token": claim.token,
    }


def _to_item(batch_id: str, row: Row) -> Item:
    index, kind, body = row
    return Item(f"{batch_id}.{index}", kind, read_json(body, f"item {index} of batch {batch_id}"))


def _to_batch(row: Row, items: Sequence[Item]) -> InboxBatch:
    (
        batch_id,
        session_id,
        seq,
        delivery,
        slot,
        merge_key,
        source_key,
        available,
        enqueued,
        state,
        job_id,
        settled,
    ) = row
    return InboxBatch(
        batch_id=batch_id,
        session_id=session_id,
        enqueue_seq=seq,
        delivery=to_enum(Delivery, delivery),
        slot=to_enum(SlotPolicy, slot),
        merge_key=merge_key,
        source_key=source_key,
        available_at=available,
        enqueued_at=enqueued,
        state=to_enum(BatchState, state),
        items=tuple(items),
        job_id=job_id,
        settled_by=settled,
    )
