"""The turn commit: the order of its checks, and what a retry returns."""

from __future__ import annotations

import msgspec

from holdfast.errors import ClaimLost, HeadMoved, InvalidPayload, SessionBound, TurnConflict
from holdfast.model import canonical
from holdfast.model.inbox import Completion
from holdfast.model.session import (
    CommitResult,
    SessionCheckpoint,
    SessionMeta,
    SessionNode,
    TurnCommit,
    Usage,
    stamp_commit,
)
from holdfast.testing.conformance.drafts import message, node
from holdfast.testing.conformance.harness import HANDLE, Bench, present

NOBODYS_CLAIM = Completion("no claim", "no token", ("no batch",))


async def a_retry_gets_the_first_result_though_the_head_moved_and_its_claim_is_gone(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("one"))
    claim = present(await bench.claim(), "a claim")
    turn = stamp_commit(TurnCommit(session_id="root", nodes=(node("n1"),), expected_revision=0), "turn-1")
    turn = msgspec.structs.replace(turn, completes=(claim.completion(),))
    first = await bench.store.sessions.commit(turn)
    await bench.store.sessions.commit(
        TurnCommit(session_id="root", checkpoint=SessionCheckpoint(turn_index=2))
    )

    async with bench.expect_unchanged():
        again = await bench.store.sessions.commit(turn)
    assert again == CommitResult(first.revision, first.checkpoint_ref, replayed=True), (
        "the first answer, once more"
    )
    assert not first.replayed


async def a_retry_may_carry_new_ids_and_times(bench: Bench) -> None:
    await bench.store.sessions.commit(
        stamp_commit(TurnCommit(session_id="root", nodes=(_make_message_node("n1", 1),)), "turn-1")
    )
    async with bench.expect_unchanged():
        again = stamp_commit(TurnCommit(session_id="root", nodes=(_make_message_node("n2", 2),)), "turn-1")
        assert (await bench.store.sessions.commit(again)).replayed, "a turn is known by its meaning"


async def a_retry_counts_no_usage_again(bench: Bench) -> None:
    usage = Usage(source="turn", model="small-1", input_tokens=5)
    turn = stamp_commit(TurnCommit(session_id="root", usage=(usage,)), "turn-1")
    for _ in range(3):
        await bench.store.sessions.commit(turn)
    assert (await bench.load()).usage == (usage,)


async def a_changed_turn_conflicts_and_changes_nothing(bench: Bench) -> None:
    await bench.store.sessions.commit(
        stamp_commit(TurnCommit(session_id="root", nodes=(node("n1"),)), "turn-1")
    )
    await bench.store.inbox.enqueue(message("one"))
    claim = present(await bench.claim(), "a claim")
    changed = stamp_commit(TurnCommit(session_id="root", nodes=(node("n1"), node("n2", "n1"))), "turn-1")
    async with bench.refuses(TurnConflict):
        completing = msgspec.structs.replace(changed, completes=(claim.completion(),))
        await bench.store.sessions.commit(completing)


async def the_stamp_is_checked_before_the_head(bench: Bench) -> None:
    turn = stamp_commit(TurnCommit(session_id="root"), "turn-1")
    await bench.store.sessions.commit(turn)
    stale = msgspec.structs.replace(turn, expected_revision=0)
    assert (await bench.store.sessions.commit(stale)).replayed, "a known turn needs no head"
    changed = TurnCommit(session_id="root", checkpoint=SessionCheckpoint(turn_index=1), expected_revision=0)
    async with bench.refuses(TurnConflict):
        await bench.store.sessions.commit(stamp_commit(changed, "turn-1"))


async def the_head_is_checked_before_the_claims(bench: Bench) -> None:
    await bench.store.sessions.commit(TurnCommit(session_id="root"))
    turn = TurnCommit(session_id="root", expected_revision=0, completes=(NOBODYS_CLAIM,))
    async with bench.refuses(HeadMoved) as refusal:
        await bench.store.sessions.commit(turn)
    assert (refusal.error.expected, refusal.error.actual) == (0, 1), "the error says how far off it was"


async def the_binding_is_checked_before_the_stamp(bench: Bench) -> None:
    await bench.store.sessions.commit(TurnCommit(session_id="alpha"), handle=HANDLE)
    turn = stamp_commit(TurnCommit(session_id="beta"), "turn-1")
    await bench.store.sessions.commit(turn)
    async with bench.refuses(SessionBound, "alpha", "beta"):
        await bench.store.sessions.commit(turn, handle=HANDLE)


async def the_head_counts_from_zero(bench: Bench) -> None:
    async with bench.refuses(HeadMoved) as refusal:
        await bench.store.sessions.commit(TurnCommit(session_id="root", expected_revision=1))
    assert (refusal.error.expected, refusal.error.actual) == (1, 0)
    for revision in range(3):
        turn = TurnCommit(session_id="root", expected_revision=revision)
        assert (await bench.store.sessions.commit(turn)).revision == revision + 1


async def a_turn_id_is_taken_in_its_own_session_only(bench: Bench) -> None:
    for session_id in ("root", "other"):
        committed = await bench.store.sessions.commit(
            stamp_commit(TurnCommit(session_id=session_id), "turn-1")
        )
        assert committed.revision == 1
        assert not committed.replayed


async def a_refused_commit_binds_nothing(bench: Bench) -> None:
    async with bench.refuses(ClaimLost):
        turn = TurnCommit(session_id="root", completes=(NOBODYS_CLAIM,))
        await bench.store.sessions.commit(turn, handle=HANDLE)
    assert await bench.store.sessions.find_bound_session(HANDLE) is None
    await bench.store.sessions.commit(TurnCommit(session_id="other"), handle=HANDLE)


async def metadata_binds_a_handle_too(bench: Bench) -> None:
    await bench.store.sessions.save_meta(SessionMeta(session_id="alpha"), handle=HANDLE)
    async with bench.refuses(SessionBound, "alpha", "beta"):
        await bench.store.sessions.save_meta(SessionMeta(session_id="beta"), handle=HANDLE)
    async with bench.refuses(SessionBound, "alpha", "beta"):
        await bench.store.sessions.commit(TurnCommit(session_id="beta"), handle=HANDLE)
    await bench.store.sessions.commit(TurnCommit(session_id="alpha"), handle=HANDLE)


async def without_a_handle_nothing_is_bound(bench: Bench) -> None:
    for session_id in ("alpha", "beta"):
        await bench.store.sessions.commit(TurnCommit(session_id=session_id))
    assert await bench.store.sessions.find_bound_session(HANDLE) is None


async def two_handles_may_serve_one_session(bench: Bench) -> None:
    for revision, handle in enumerate(("left", "right"), 1):
        committed = await bench.store.sessions.commit(TurnCommit(session_id="root"), handle=handle)
        assert committed.revision == revision
        assert await bench.store.sessions.find_bound_session(handle) == "root"


async def a_stamp_must_be_for_its_own_session(bench: Bench) -> None:
    stamp = stamp_commit(TurnCommit(session_id="other"), "turn-1").stamp
    async with bench.refuses(InvalidPayload, "root", "other"):
        await bench.store.sessions.commit(TurnCommit(session_id="root", stamp=stamp))


async def the_checkpoint_ref_is_the_digest_of_its_content(bench: Bench) -> None:
    checkpoint = SessionCheckpoint(
        turn_index=3, options={"b": 1, "a": [2]}, tool_state=b"tools", tool_generation=1
    )
    committed = await bench.store.sessions.commit(TurnCommit(session_id="root", checkpoint=checkpoint))
    document = msgspec.structs.asdict(checkpoint) | {"tool_state": canonical.hex_digest(b"tools")}
    assert committed.checkpoint_ref == canonical.hex_digest(canonical.encode(document))
    assert (await bench.load()).checkpoint_ref == committed.checkpoint_ref


async def usage_is_merged_by_source_and_model(bench: Bench) -> None:
    def used(source: str, model: str, tokens: int) -> Usage:
        return Usage(
            source=source,
            model=model,
            input_tokens=tokens,
            output_tokens=2 * tokens,
            cached_input_tokens=3 * tokens,
            reasoning_tokens=4 * tokens,
        )

    turns = [
        (used("turn", "small", 1), used("plan", "large", 2), used("turn", "small", 4)),
        (used("turn", "large", 8), used("plan", "large", 16)),
    ]
    for usage in turns:
        await bench.store.sessions.commit(TurnCommit(session_id="root", usage=usage))
    merged = (used("turn", "small", 5), used("plan", "large", 18), used("turn", "large", 8))
    assert (await bench.load()).usage == merged, "one line each, in the order of first use"


def _make_message_node(node_id: str, at: int) -> SessionNode:
    body = {
        "message": {"id": f"message {node_id}", "role": "user", "parts": [{"id": node_id, "text": "hello"}]}
    }
    return node(node_id, body=body, at=at)
