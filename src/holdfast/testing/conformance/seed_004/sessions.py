"""Checks of the document for sessions: commits, loads, metadata, attachments, maintenance, reopening."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.errors import SessionBound, TurnConflict
from holdfast.model.session import (
    Frame,
    SessionCheckpoint,
    SessionMeta,
    TurnCommit,
    Usage,
    VacuumResult,
    stamp_commit,
    turn_hash,
)
from holdfast.store.ports.attachments import AttachmentIntent
from holdfast.store.ports.sessions import ACTIVE_PATH, FULL_GRAPH, SessionScope
from holdfast.testing.conformance.drafts import message, node, text_of
from holdfast.testing.conformance.harness import HANDLE, Bench, present

META: Final = SessionMeta(
    session_id="root",
    name="The first session",
    created_at="2026-06-02T00:00:00Z",
    model="large-1",
    cwd="/srv/notes",
    relation="root",
)


async def runtime_persistence_reports_declared_durability(bench: Bench) -> None:
    declared = bench.backend.tier
    assert bench.store.tier is declared, "the store's tier is not the one its backend declares"
    assert (await bench.store.info()).tier is declared, "the store shows another tier than it declares"
    assert declared.survives_kill is bench.backend.durable, "durable means that a kill loses nothing"


async def commit_increments_head_and_round_trips_agent_frames(bench: Bench) -> None:
    first = Frame(frame_id="frame-1", assignment={"model": "large-1"})
    second = Frame(
        frame_id="frame-2",
        previous_frame_id="frame-1",
        reason="plan_mode",
        assignment=first.assignment,
        snapshot=b"state of the machine",
    )
    commit = TurnCommit(
        session_id="root",
        frames=(first, second),
        frame_id="frame-2",
        checkpoint=SessionCheckpoint(execution_state=b"state of the machine"),
    )
    committed = await bench.store.sessions.commit(commit, handle=HANDLE)
    assert committed.revision == 1, "the first commit makes revision 1"

    view = present(await bench.load_bound(), "the session")
    assert view.revision == 1
    assert view.frame_id == "frame-2", "the current frame is the one the commit named"
    assert len(view.frames) == 2
    current = next(frame for frame in view.frames if frame.frame_id == "frame-2")
    assert current.reason == "plan_mode", "a reason is any word, and comes back as it was"
    assert current.snapshot == b"state of the machine"
    assert view.frames == (first, second), "a frame comes back with everything it had"
    assert view.checkpoint.execution_state == b"state of the machine"

    committed = await bench.store.sessions.commit(TurnCommit(session_id="root"), handle=HANDLE)
    assert committed.revision == 2, "each commit makes the next revision"


async def commit_rejects_a_different_session_id(bench: Bench) -> None:
    await bench.store.sessions.commit(TurnCommit(session_id="alpha"), handle=HANDLE)
    async with bench.refuses(SessionBound, "alpha", "beta"):
        await bench.store.sessions.commit(TurnCommit(session_id="beta"), handle=HANDLE)
    assert await bench.store.sessions.find_bound_session(HANDLE) == "alpha", (
        "the first commit decides, for ever"
    )


async def load_hydrates_checkpoint_and_usage(bench: Bench) -> None:
    usage = Usage(
        source="turn",
        model="small-1",
        input_tokens=11,
        output_tokens=7,
        cached_input_tokens=3,
        reasoning_tokens=5,
    )
    checkpoint = SessionCheckpoint(
        tool_state=b"tools", tool_generation=9, plugin_snapshot=b"plugins", plugin_revision=12
    )
    commit = TurnCommit(session_id="hydrated", checkpoint=checkpoint, usage=(usage,))
    await bench.store.sessions.commit(commit, handle=HANDLE)

    view = present(await bench.load_bound(), "the session")
    assert view.session_id == "hydrated"
    assert view.checkpoint.tool_generation == 9
    assert view.checkpoint.plugin_revision == 12
    assert view.checkpoint == checkpoint, "the bytes come back with their generation and revision"
    assert len(view.usage) == 1
    assert view.usage[0].input_tokens == 11
    assert view.usage == (usage,)


async def active_path_read_scope_selects_only_requested_ancestry(bench: Bench) -> None:
    branches = (
        node("root-node"),
        node("left-node", "root-node"),
        node("left-leaf", "left-node"),
        node("right-leaf", "root-node"),
    )
    commit = TurnCommit(session_id="branchy", nodes=branches, leaf_node_id="left-leaf", replace=True)
    await bench.store.sessions.commit(commit, handle=HANDLE)

    async def loaded(scope: SessionScope) -> tuple[list[str], str | None]:
        graph = present(await bench.load_bound(scope), "the session").graph
        return [node.node_id for node in graph.nodes], graph.leaf_node_id

    everything, _leaf = await loaded(FULL_GRAPH)
    assert everything == ["root-node", "left-node", "left-leaf", "right-leaf"], "all branches, as inserted"
    path, leaf = await loaded(ACTIVE_PATH)
    assert path == ["root-node", "left-node", "left-leaf"], "without a leaf it is the stored leaf's ancestry"
    assert leaf == "left-leaf"
    path, leaf = await loaded(SessionScope(active_path=True, leaf_node_id="right-leaf"))
    assert path == ["root-node", "right-leaf"], "with a leaf it is that leaf's ancestry, whatever is stored"
    assert leaf == "right-leaf"


async def attachment_manifest_records_intent_and_commit_stamps(bench: Bench) -> None:
    attachments = bench.store.attachments
    for attachment_id in ("by-turn", "by-hand", "orphan"):
        await attachments.record_intent(_make_intent(attachment_id))
    assert len(await attachments.list_uncommitted(200)) == 3, "an intent counts before anything uses it"

    await attachments.commit_refs("root", ["by-hand"])
    await bench.store.sessions.commit(TurnCommit(session_id="root", attachments=("by-turn",)), handle=HANDLE)

    left = await attachments.list_uncommitted(200)
    assert len(left) == 1, "a turn stamps what it uses, and so does a hand"
    assert left[0].attachment_id == "orphan"
    assert left[0].committed_at is None
    assert left[0] == _make_intent("orphan"), "an intent comes back as it was recorded"
    await attachments.forget("orphan")
    assert await attachments.list_uncommitted(200) == [], "what is forgotten is gone"


def _make_intent(attachment_id: str) -> AttachmentIntent:
    return AttachmentIntent(attachment_id, "root", f"sha256:{attachment_id}", intent_at=100)


async def session_metadata_round_trips(bench: Bench) -> None:
    await bench.store.sessions.save_meta(META, handle=HANDLE)
    session_id = present(
        await bench.store.sessions.find_bound_session(HANDLE), "a binding: saving metadata makes one"
    )
    assert await bench.store.sessions.meta(session_id) == META, "every field comes back as it was saved"


async def tombstone_vacuum_and_gc_are_minimally_consistent(bench: Bench) -> None:
    sessions = bench.store.sessions
    graph = (node("node-live"), node("node-delete", "node-live"))
    await sessions.commit(TurnCommit(session_id="root", nodes=graph, replace=True), handle=HANDLE)
    assert await sessions.node("root", "node-delete") is not None

    await sessions.tombstone("root", ["node-delete"])
    assert await sessions.node("root", "node-delete") is None, "a tombstone hides the node itself"
    view = present(await bench.load_bound(), "the session")
    assert [node.node_id for node in view.graph.nodes] == ["node-live"], "a tombstone hides it from the graph"

    assert await sessions.vacuum("root") == VacuumResult(1), "vacuum counts what it removed"
    assert await sessions.vacuum("root") == VacuumResult(0), (
        "vacuum counts what this call removed, not the last one"
    )
    await sessions.gc()
    assert await bench.load() == view, "upkeep changes nothing that a load shows"


async def final_commit_stamp_is_idempotent_and_conflicts_on_changed_hash(bench: Bench) -> None:
    sessions = bench.store.sessions
    turn = TurnCommit(session_id="root")
    first = await sessions.commit(stamp_commit(turn, "turn-7"), handle=HANDLE)
    async with bench.expect_unchanged():
        again = await sessions.commit(stamp_commit(turn, "turn-7"), handle=HANDLE)
    assert again.revision == first.revision, "a turn committed twice is one turn"
    assert again.checkpoint_ref == first.checkpoint_ref

    from_new_head = msgspec.structs.replace(turn, expected_revision=first.revision)
    assert turn_hash(from_new_head) == turn_hash(turn), (
        "the revision it builds on is no part of a turn's identity"
    )

    changed = TurnCommit(session_id="root", checkpoint=SessionCheckpoint(turn_index=1))
    async with bench.refuses(TurnConflict):
        await sessions.commit(stamp_commit(changed, "turn-7"), handle=HANDLE)


async def runtime_persistence_survives_reopen(bench: Bench) -> None:
    store = bench.store
    await store.sessions.save_meta(META, handle=HANDLE)
    checkpoint = SessionCheckpoint(tool_state=b"tools", tool_generation=77)
    await store.sessions.commit(TurnCommit(session_id="root", checkpoint=checkpoint), handle=HANDLE)
    queued = await store.inbox.enqueue(message("still here?", source_key="reopen:queued"))
    await store.attachments.record_intent(_make_intent("reopen-attachment"))

    await bench.reopen()
    store = bench.store
    assert present(await store.sessions.meta("root"), "the metadata").name == META.name
    view = present(await bench.load_bound(), "the session, by the binding of its handle")
    assert view.session_id == "root"
    assert view.checkpoint.tool_generation == 77
    assert view.checkpoint == checkpoint
    queue = await store.inbox.list("root")
    assert len(queue) == 1
    assert queue[0].batch_id == queued.batch_id
    assert text_of(queue[0]) == "still here?"
    intents = await store.attachments.list_uncommitted(200)
    assert _make_intent("reopen-attachment") in intents, "an intent is there to be cleaned up after any crash"
