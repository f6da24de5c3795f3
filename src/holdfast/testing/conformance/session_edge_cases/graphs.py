"""The graph, frames, metadata and maintenance of a session."""

from __future__ import annotations

from holdfast.errors import InvalidName, InvalidPayload
from holdfast.model.session import Frame, Graph, SessionCheckpoint, SessionMeta, TurnCommit, VacuumResult
from holdfast.model.time import HOUR
from holdfast.store.ports.sessions import ACTIVE_PATH, SessionScope
from holdfast.testing.conformance.drafts import message, node
from holdfast.testing.conformance.harness import HANDLE, Bench


async def a_session_is_nothing_before_its_first_commit(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("hello"))
    await bench.store.sessions.save_meta(SessionMeta(session_id="root"))
    assert await bench.store.sessions.load("root") is None, "a queue and a name are not a session yet"
    assert await bench.store.sessions.load("never heard of") is None
    assert await bench.store.sessions.meta("never heard of") is None
    assert await bench.store.sessions.find_bound_session("never heard of") is None


async def nodes_come_back_as_they_were(bench: Bench) -> None:
    first = node("a", body={"text": "hello"}, at=7)
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(first,)))
    assert await bench.store.sessions.node("root", "a") == first
    assert await bench.store.sessions.node("other", "a") is None, "a node belongs to its session"
    assert await bench.store.sessions.node("root", "b") is None
    assert (await bench.load()).graph == Graph((first,), "a")


async def turns_append_to_the_graph(bench: Bench) -> None:
    first, second, third = node("a"), node("b", "a"), node("c", "b")
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(first,)))
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(second, third)))
    assert (await bench.load()).graph == Graph((first, second, third), "c"), (
        "the leaf is the last one appended"
    )


async def a_turn_without_nodes_keeps_the_leaf(bench: Bench) -> None:
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(node("a"), node("b", "a"))))
    await bench.store.sessions.commit(TurnCommit(session_id="root"))
    assert (await bench.load()).graph.leaf_node_id == "b"
    await bench.store.sessions.commit(TurnCommit(session_id="root", leaf_node_id="a"))
    assert (await bench.load()).graph.leaf_node_id == "a", "a leaf can be moved without a node"


async def replacing_leaves_exactly_the_new_graph(bench: Bench) -> None:
    sessions = bench.store.sessions
    old = (node("a"), node("b", "a"), node("c", "b"))
    await sessions.commit(TurnCommit(session_id="root", nodes=old))
    await sessions.tombstone("root", ["b"])
    summary, leaf = node("summary"), node("c", "summary")
    await sessions.commit(TurnCommit(session_id="root", nodes=(summary, leaf), replace=True))
    assert (await bench.load()).graph == Graph((summary, leaf), "c")
    assert await sessions.node("root", "a") is None
    assert await sessions.vacuum("root") == VacuumResult(0), "nothing of the old graph is left to remove"


async def replacing_with_nothing_leaves_nothing(bench: Bench) -> None:
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(node("a"),)))
    await bench.store.sessions.commit(TurnCommit(session_id="root", replace=True))
    assert (await bench.load()).graph == Graph((), None)


async def a_refused_replacement_keeps_the_old_graph(bench: Bench) -> None:
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(node("a"), node("b", "a"))))
    twice = TurnCommit(session_id="root", nodes=(node("x"), node("x")), replace=True)
    async with bench.refuses(InvalidPayload):
        await bench.store.sessions.commit(twice)
    nameless = TurnCommit(session_id="root", nodes=(node(""),), replace=True)
    async with bench.refuses(InvalidName):
        await bench.store.sessions.commit(nameless)


async def committing_a_node_again_replaces_it(bench: Bench) -> None:
    first, second, again = node("a", body="first"), node("b", "a"), node("a", body="again")
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(first, second)))
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(again,)))
    assert (await bench.load()).graph == Graph((again, second), "a"), "in its old place, and now the leaf"


async def committing_a_node_again_clears_its_tombstone(bench: Bench) -> None:
    sessions = bench.store.sessions
    both = (node("a"), node("b", "a"))
    await sessions.commit(TurnCommit(session_id="root", nodes=both))
    await sessions.tombstone("root", ["b"])
    await sessions.commit(TurnCommit(session_id="root", nodes=(both[1],)))
    assert await sessions.node("root", "b") == both[1]
    assert (await bench.load()).graph == Graph(both, "b")
    assert await sessions.vacuum("root") == VacuumResult(0), "what was brought back stays"


async def a_tombstone_counts_what_was_visible(bench: Bench) -> None:
    sessions = bench.store.sessions
    await sessions.commit(TurnCommit(session_id="root", nodes=(node("a"), node("b", "a"), node("c", "b"))))
    assert await sessions.tombstone("root", ["b", "c", "never heard of"]) == 2
    assert await sessions.tombstone("root", ["a", "b"]) == 1, "b was hidden before"
    assert await sessions.tombstone("root", []) == 0
    assert (await bench.load()).graph.nodes == ()


async def upkeep_of_one_session_leaves_others_alone(bench: Bench) -> None:
    sessions = bench.store.sessions
    for session_id in ("root", "other"):
        await sessions.commit(TurnCommit(session_id=session_id, nodes=(node("a"), node("b", "a"))))
    await sessions.tombstone("other", ["b"])
    assert await sessions.vacuum("root") == VacuumResult(0)
    assert await sessions.node("root", "b") is not None
    assert await sessions.vacuum("other") == VacuumResult(1)


async def an_active_path_ends_where_a_parent_is_missing(bench: Bench) -> None:
    a, b, c = node("a"), node("b", "a"), node("c", "b")
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(a, b, c)))
    await bench.store.sessions.tombstone("root", ["a"])
    assert (await bench.load(scope=ACTIVE_PATH)).graph == Graph((b, c), "c")
    unknown = SessionScope(active_path=True, leaf_node_id="never heard of")
    assert (await bench.load(scope=unknown)).graph.nodes == ()


async def frames_are_added_or_replaced_by_id(bench: Bench) -> None:
    first = Frame(frame_id="f1", assignment={"a": 1}, options={"o": 1}, snapshot=b"one", created_at=5)
    await bench.store.sessions.commit(TurnCommit(session_id="root", frames=(first,), frame_id="f1"))
    closed = Frame(frame_id="f1", status="closed", reason="compaction", caused_by="turn-1")
    second = Frame(frame_id="f2", previous_frame_id="f1")
    await bench.store.sessions.commit(TurnCommit(session_id="root", frames=(closed, second)))
    view = await bench.load()
    assert view.frames == (closed, second), "a replaced frame keeps its place"
    assert view.frame_id == "f1", "no frame named: the current one stays"


async def a_checkpoint_replaces_the_last_one(bench: Bench) -> None:
    full = SessionCheckpoint(
        turn_index=1, options={"o": 1}, tool_state=b"t", plugin_snapshot=b"", execution_state=b"e"
    )
    await bench.store.sessions.commit(TurnCommit(session_id="root", checkpoint=full))
    assert (await bench.load()).checkpoint == full, "no bytes and empty bytes are two things"
    await bench.store.sessions.commit(
        TurnCommit(session_id="root", checkpoint=SessionCheckpoint(turn_index=2))
    )
    assert (await bench.load()).checkpoint == SessionCheckpoint(turn_index=2)


async def metadata_is_the_last_that_was_saved(bench: Bench) -> None:
    child = {"child": {"parent_session_id": "root", "caused_by": "turn-1"}}
    for meta in (SessionMeta(session_id="root", name="one"), SessionMeta(session_id="root", relation=child)):
        await bench.store.sessions.save_meta(meta)
        assert await bench.store.sessions.meta("root") == meta


async def another_namespace_sees_no_session(bench: Bench) -> None:
    sessions = bench.store.sessions
    await bench.store.namespaces.create("elsewhere")
    await sessions.save_meta(SessionMeta(session_id="root"))
    await sessions.commit(TurnCommit(session_id="root", nodes=(node("a"),)), handle=HANDLE)
    assert await sessions.load("root", namespace="elsewhere") is None
    assert await sessions.meta("root", namespace="elsewhere") is None
    assert await sessions.node("root", "a", namespace="elsewhere") is None
    assert await sessions.find_bound_session(HANDLE, namespace="elsewhere") is None
    assert await sessions.tombstone("root", ["a"], namespace="elsewhere") == 0
    assert await sessions.vacuum("root", namespace="elsewhere") == VacuumResult(0)
    theirs = await sessions.commit(TurnCommit(session_id="other"), handle=HANDLE, namespace="elsewhere")
    assert theirs.revision == 1, "a handle of the same name is another handle there"
    assert (await bench.load()).revision == 1


async def garbage_collection_keeps_what_a_session_still_needs(bench: Bench) -> None:
    large = bytes(100_000)
    frame = Frame(frame_id="f1", snapshot=large + b"frame")
    checkpoint = SessionCheckpoint(tool_state=large + b"tools", execution_state=large + b"state")
    turn = TurnCommit(
        session_id="root", frames=(frame,), checkpoint=checkpoint, nodes=(node("a", body="x" * 9000),)
    )
    await bench.store.sessions.commit(turn)
    async with bench.expect_unchanged():
        bench.clock.advance(HOUR)
        await bench.store.sessions.gc()
