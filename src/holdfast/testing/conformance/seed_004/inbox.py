"""Checks of the document for the rest of the inbox: sending, cancelling, waking, and the turn that settles."""

from __future__ import annotations

import msgspec

from holdfast.errors import ClaimLost
from holdfast.model.inbox import Claim, Completion
from holdfast.model.session import SessionCheckpoint, TurnCommit, stamp_commit
from holdfast.testing.conformance.drafts import (
    AFTER_COMMIT,
    JOIN,
    PROCESS_WAKE,
    batches_in,
    message,
    text_of,
    wake_draft,
)
from holdfast.testing.conformance.harness import HANDLE, Bench, present


async def queued_work_source_keys_are_idempotent_and_list_ordered(bench: Bench) -> None:
    inbox = bench.store.inbox
    first = await inbox.enqueue(message("first", slot=JOIN, source_key="source:first"))
    again = await inbox.enqueue(message("something else", slot=JOIN, source_key="source:first"))
    second = await inbox.enqueue(message("second"))
    await inbox.enqueue(message("elsewhere", "other"))

    assert again.batch_id == first.batch_id, "one source key is one batch"
    assert again.items[0].item_id == first.items[0].item_id
    assert text_of(again) == "first", "a repeat shows what is stored, not what it carried"
    listed = await inbox.list("root")
    assert [batch.batch_id for batch in listed] == [first.batch_id, second.batch_id], "in the order they came"
    assert listed[0].enqueue_seq < listed[1].enqueue_seq


async def queued_work_cancel_removes_only_unclaimed_batches(bench: Bench) -> None:
    inbox = bench.store.inbox
    unwanted = await inbox.enqueue(message("never mind", delivery=AFTER_COMMIT))
    cancelled = present(await inbox.cancel("root", unwanted.batch_id), "the cancelled batch")
    assert cancelled.batch_id == unwanted.batch_id
    assert text_of(cancelled) == "never mind", "whoever cancels gets the text back"
    assert await bench.list_queued() == [], "a cancelled batch has left the queue"

    taken = await inbox.enqueue(message("on its way", delivery=AFTER_COMMIT))
    claim = present(await bench.claim(max_batches=1), "a claim on the only batch")
    assert batches_in(claim) == [taken.batch_id]
    assert await bench.pending() == [], "nobody can edit what a turn has taken"
    assert len(await bench.list_queued()) == 1, "taken is not gone: it stays until a turn completes it"
    assert await inbox.cancel("root", taken.batch_id) is None, "too late to cancel"

    await inbox.abandon(claim)
    assert len(await bench.pending()) == 1, "given back is editable again"
    assert await inbox.cancel("root", taken.batch_id) is not None, "and can be cancelled again"


async def queued_wake_delivery_is_source_key_idempotent_and_claimed_once(bench: Bench) -> None:
    inbox = bench.store.inbox
    wake = wake_draft("process-1", 7, event_type="process.wake", input="look at this")
    first = await inbox.enqueue(wake)
    again = await inbox.enqueue(wake)
    assert again.batch_id == first.batch_id, "one event of a process wakes a session once"
    assert len(await bench.list_queued()) == 1

    claim = present(await bench.claim(owner="wake-owner"), "a claim on the wake")
    assert len(claim.batches) == 1
    assert len(claim.batches[0].items) == 1
    assert claim.batches[0].items[0].kind == PROCESS_WAKE

    await bench.store.sessions.commit(
        TurnCommit(session_id="root", completes=(claim.completion(),)), handle=HANDLE
    )
    assert await bench.list_queued() == [], "a delivered wake is out of the queue"


async def queue_completion_and_turn_commit_stamp_are_atomic(bench: Bench) -> None:
    sessions = bench.store.sessions
    batch = await bench.store.inbox.enqueue(message("all or nothing"))
    claim = present(await bench.claim(owner="queue-owner", max_batches=1), "a claim")
    assert batches_in(claim) == [batch.batch_id]
    turn = stamp_commit(
        TurnCommit(session_id="root", checkpoint=SessionCheckpoint(turn_index=41)), "turn-atomic"
    )

    async with bench.refuses(ClaimLost):
        await sessions.commit(_add_completion(turn, make_stale(claim)), handle=HANDLE)
    assert await bench.load_bound() is None, "a refused turn leaves no session behind"
    assert len(await bench.list_queued()) == 1, "a refused turn completes nothing"

    first = await sessions.commit(_add_completion(turn, claim.completion()), handle=HANDLE)
    again = await sessions.commit(_add_completion(turn, claim.completion()), handle=HANDLE)
    assert again.revision == first.revision, "the stamp answers a retry, though its claim is used up"
    assert again.checkpoint_ref == first.checkpoint_ref
    assert await bench.load_bound() is not None
    assert await bench.list_queued() == []


def _add_completion(turn: TurnCommit, completion: Completion) -> TurnCommit:
    return msgspec.structs.replace(turn, completes=(completion,))


def make_stale(claim: Claim) -> Completion:
    """A completion with an old token."""
    return msgspec.structs.replace(claim.completion(), token=f"{claim.token}, stale")
