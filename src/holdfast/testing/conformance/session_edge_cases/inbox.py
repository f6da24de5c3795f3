"""Sending and cancelling batches: receipts, repeated sends, namespaces."""

from __future__ import annotations

from holdfast.errors import InvalidName, InvalidPayload
from holdfast.model.inbox import BatchDraft, BatchState, Boundary, InboxBatch, ItemDraft
from holdfast.model.session import TurnCommit, stamp_commit
from holdfast.model.time import MINUTE
from holdfast.testing.conformance.drafts import message, text_of
from holdfast.testing.conformance.harness import Bench, present


async def a_source_key_after_completion_returns_the_receipt(bench: Bench) -> None:
    inbox = bench.store.inbox
    batch = await inbox.enqueue(message("once", source_key="mail:1"))
    claim = present(await bench.claim(), "a claim")
    turn = stamp_commit(TurnCommit(session_id="root", completes=(claim.completion(),)), "turn-1")
    await bench.store.sessions.commit(turn)

    receipt = await inbox.enqueue(message("once more", source_key="mail:1"))
    assert receipt.batch_id == batch.batch_id, "what was delivered is not delivered again"
    assert receipt.state is BatchState.COMPLETED
    assert receipt.items == (), "a receipt has no items"
    assert receipt.settled_by == "turn-1", "a receipt names the turn"
    assert await bench.list_queued() == []


async def a_source_key_after_cancelling_returns_the_receipt(bench: Bench) -> None:
    batch = await bench.store.inbox.enqueue(message("once", source_key="mail:1"))
    await bench.store.inbox.cancel("root", batch.batch_id)
    receipt = await bench.store.inbox.enqueue(message("once more", source_key="mail:1"))
    assert (receipt.batch_id, receipt.state) == (batch.batch_id, BatchState.CANCELLED), (
        "cancelled stays cancelled"
    )
    assert receipt.items == ()
    assert not receipt.settled_by, "no turn used it"
    assert await bench.list_queued() == []


async def a_turn_without_a_stamp_leaves_a_receipt_without_a_turn(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("once", source_key="mail:1"))
    claim = present(await bench.claim(), "a claim")
    await bench.store.sessions.commit(TurnCommit(session_id="root", completes=(claim.completion(),)))
    receipt = await bench.store.inbox.enqueue(message("once", source_key="mail:1"))
    assert receipt.state is BatchState.COMPLETED
    assert not receipt.settled_by


async def a_batch_id_is_as_good_as_a_source_key(bench: Bench) -> None:
    first = await bench.store.inbox.enqueue(message("first", batch_id="batch-1"))
    again = await bench.store.inbox.enqueue(message("something else", batch_id="batch-1"))
    assert again == first, "the sender's id makes a repeat recognisable"
    assert first.batch_id == "batch-1"
    assert await bench.list_queued() == ["batch-1"]


async def source_keys_of_two_sessions_do_not_meet(bench: Bench) -> None:
    here = await bench.store.inbox.enqueue(message("here", "root", source_key="mail:1"))
    there = await bench.store.inbox.enqueue(message("there", "other", source_key="mail:1"))
    assert here.batch_id != there.batch_id
    assert text_of(there) == "there"
    assert (here.enqueue_seq, there.enqueue_seq) == (1, 1), "each session counts from 1"


async def items_keep_their_order_and_get_ids(bench: Bench) -> None:
    items = tuple(ItemDraft("turn_input", {"text": text}) for text in "abc")
    batch = await bench.store.inbox.enqueue(BatchDraft(session_id="root", items=items))
    assert [item.payload["text"] for item in batch.items] == ["a", "b", "c"]
    assert [item.item_id for item in batch.items] == [f"{batch.batch_id}.{index}" for index in range(3)]
    assert await bench.store.inbox.list("root") == [batch], "what was answered is what is stored"


async def a_queued_batch_has_every_field_it_was_sent_with(bench: Bench) -> None:
    available_at = bench.clock.wall_us() + MINUTE
    draft = message("later", source_key="mail:1", available_at=available_at, batch_id="batch-1")
    stored = await bench.store.inbox.enqueue(draft)
    expected = InboxBatch(
        batch_id="batch-1",
        session_id="root",
        enqueue_seq=1,
        delivery=draft.delivery,
        slot=draft.slot,
        merge_key=draft.merge_key,
        source_key="mail:1",
        available_at=available_at,
        enqueued_at=bench.clock.wall_us(),
        state=BatchState.QUEUED,
        items=stored.items,
    )
    assert stored == expected


async def a_bad_draft_is_refused_and_queues_nothing(bench: Bench) -> None:
    async with bench.refuses(InvalidPayload):
        await bench.store.inbox.enqueue(BatchDraft(session_id="root", items=()))
    async with bench.refuses(InvalidPayload):
        await bench.store.inbox.enqueue(message("which group?", merge_key="no such rule"))
    async with bench.refuses(InvalidName):
        await bench.store.inbox.enqueue(message("a key with a line in it", source_key="a\nb"))


async def a_cancelled_batch_is_answered_as_it_was_queued(bench: Bench) -> None:
    batch = await bench.store.inbox.enqueue(message("never mind"))
    cancelled = present(await bench.store.inbox.cancel("root", batch.batch_id), "the cancelled batch")
    assert cancelled.items == batch.items, "items included"
    assert cancelled.state is BatchState.CANCELLED
    assert await bench.store.inbox.cancel("root", batch.batch_id) is None, "once is enough"


async def only_what_is_there_can_be_cancelled(bench: Bench) -> None:
    batch = await bench.store.inbox.enqueue(message("stay"))
    assert await bench.store.inbox.cancel("root", "nothing") is None
    assert await bench.store.inbox.cancel("other", batch.batch_id) is None, "a batch belongs to its session"
    claim = present(await bench.claim(), "a claim")
    await bench.store.sessions.commit(TurnCommit(session_id="root", completes=(claim.completion(),)))
    assert await bench.store.inbox.cancel("root", batch.batch_id) is None, (
        "what was delivered stays delivered"
    )


async def a_cancelled_batch_frees_the_ones_behind_it(bench: Bench) -> None:
    first = await bench.store.inbox.enqueue(message("first"))
    second = await bench.store.inbox.enqueue(message("second"))
    await bench.store.inbox.cancel("root", first.batch_id)
    claim = present(await bench.claim_exact([second.batch_id]), "a claim on what is now the head")
    assert [batch.batch_id for batch in claim.batches] == [second.batch_id]


async def another_namespace_sees_no_inbox(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    batch = await bench.store.inbox.enqueue(message("ours", source_key="mail:1", batch_id="batch-1"))
    inbox = bench.store.inbox
    assert await inbox.list("root", namespace="elsewhere") == []
    assert await inbox.list_pending("root", namespace="elsewhere") == []
    assert await inbox.cancel("root", batch.batch_id, namespace="elsewhere") is None
    claim = await inbox.claim(
        "root",
        "owner",
        Boundary.IDLE,
        ttl_us=MINUTE,
        max_batches=1,
        token=bench.fresh("token"),
        namespace="elsewhere",
    )
    assert claim is None
    theirs = await inbox.enqueue(
        message("theirs", source_key="mail:1", batch_id="batch-1"), namespace="elsewhere"
    )
    assert text_of(theirs) == "theirs", "keys and ids mean nothing beyond the wall"
    assert theirs.enqueue_seq == 1
    assert await bench.list_queued() == [batch.batch_id]
