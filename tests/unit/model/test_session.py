"""A turn is known by its meaning, a path by its leaf, and a commit is checked before it is written."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidName, InvalidPayload, TooLarge
from holdfast.model.inbox import Completion
from holdfast.model.limits import JSON_BYTES_MAX, JSON_DEPTH_MAX
from holdfast.model.session import (
    Frame,
    SessionCheckpoint,
    SessionNode,
    TurnCommit,
    TurnStamp,
    Usage,
    active_path,
    check_commit,
    stamp_commit,
    turn_hash,
)

MESSAGE = {
    "message": {
        "id": "m1",
        "created_at": "today",
        "role": "user",
        "parts": [{"id": "p1", "text": "hello"}, {"id": "p2", "text": "there"}],
    },
    "protocol": 1,
}
NODE = SessionNode(node_id="n1", parent_node_id="n0", body=MESSAGE, caused_by="turn-1", frame_id="f1", at=1)
FRAME = Frame(
    frame_id="f1",
    previous_frame_id="f0",
    status="active",
    reason="compaction",
    caused_by="turn-0",
    created_at=1,
    assignment={"policy": "a"},
    options={"o": 1},
    snapshot=b"snapshot",
)
CHECKPOINT = SessionCheckpoint(
    turn_index=1,
    options={"o": 1},
    tool_state=b"tools",
    tool_generation=1,
    plugin_snapshot=b"plugins",
    plugin_revision=1,
    execution_state=b"state",
)
USAGE = Usage(
    source="turn", model="m", input_tokens=1, output_tokens=2, cached_input_tokens=3, reasoning_tokens=4
)
TURN = TurnCommit(
    session_id="s",
    nodes=(NODE, SessionNode(node_id="n2", body="plain")),
    leaf_node_id="n2",
    replace=False,
    frames=(FRAME, Frame(frame_id="f2")),
    frame_id="f2",
    checkpoint=CHECKPOINT,
    usage=(USAGE, USAGE),
    expected_revision=3,
    stamp=TurnStamp("s", "t", "h"),
    completes=(Completion("c", "t", ("b",)),),
    attachments=("a1", "a2"),
)


def with_message(**changes: Any) -> Any:
    message = {**MESSAGE["message"], **changes}  # type: ignore[dict-item]
    return {**MESSAGE, "message": message}


# For every field of every part: another value that means the same, or values that mean something else.
SAME: dict[type[Any], dict[str, Any]] = {
    TurnCommit: {
        "leaf_node_id": "n9",
        "expected_revision": None,
        "stamp": None,
        "completes": (),
    },
    SessionNode: {"node_id": "n9", "parent_node_id": None, "at": 99},
    Frame: {"created_at": 99},
    SessionCheckpoint: {},
    Usage: {},
}
OTHER: dict[type[Any], dict[str, list[Any]]] = {
    TurnCommit: {
        "session_id": ["other"],
        "nodes": [(), TURN.nodes[:1], TURN.nodes[::-1], (*TURN.nodes, NODE)],
        "replace": [True],
        "frames": [(), TURN.frames[:1], TURN.frames[::-1]],
        "frame_id": [None, "f1"],
        "checkpoint": [SessionCheckpoint()],
        "usage": [(), (USAGE,)],
        "attachments": [(), ("a1",), ("a1", "a3")],
    },
    SessionNode: {
        "body": [
            None,
            "hello",
            {},
            {**MESSAGE, "protocol": 2},
            with_message(role="assistant"),
            with_message(parts=[{"id": "p1", "text": "hello"}]),
            with_message(parts=[{"id": "p1", "text": "there"}, {"id": "p2", "text": "hello"}]),
            with_message(parts=[{"id": "p1", "text": "hello"}, {"id": "p2", "text": "there", "more": 1}]),
            with_message(reply_to="m0"),
        ],
        "caused_by": [None, "turn-2"],
        "frame_id": [None, "f2"],
    },
    Frame: {
        "frame_id": ["f9"],
        "previous_frame_id": [None, "f9"],
        "status": ["closed"],
        "reason": ["initial"],
        "caused_by": [None, "turn-9"],
        "assignment": [None, {"policy": "b"}],
        "options": [None, {"o": 1.0}, {"o": True}],
        "snapshot": [None, b"", b"other"],
    },
    SessionCheckpoint: {
        "turn_index": [2],
        "options": [None, {"o": 2}],
        "tool_state": [None, b"", b"other"],
        "tool_generation": [None, 2],
        "plugin_snapshot": [None, b"", b"other"],
        "plugin_revision": [None, 2],
        "execution_state": [None, b"", b"other"],
    },
    Usage: {
        "source": ["plan"],
        "model": ["n"],
        "input_tokens": [0],
        "output_tokens": [0],
        "cached_input_tokens": [0],
        "reasoning_tokens": [0],
    },
}


def changed(part: type[Any], name: str, value: Any) -> TurnCommit:
    """The turn with one field of one of its parts changed."""
    replace = msgspec.structs.replace
    if part is SessionNode:
        return replace(TURN, nodes=(replace(NODE, **{name: value}), *TURN.nodes[1:]))
    if part is Frame:
        return replace(TURN, frames=(replace(FRAME, **{name: value}), *TURN.frames[1:]))
    if part is SessionCheckpoint:
        return replace(TURN, checkpoint=replace(CHECKPOINT, **{name: value}))
    if part is Usage:
        return replace(TURN, usage=(replace(USAGE, **{name: value}), *TURN.usage[1:]))
    return replace(TURN, **{name: value})


@pytest.mark.parametrize("part", OTHER)
def test_every_field_is_decided_about(part: type[Any]) -> None:
    """Compare with the fields there are: a new one either counts or does not, and says so here."""
    assert SAME[part].keys() | OTHER[part].keys() == set(part.__struct_fields__)
    assert not SAME[part].keys() & OTHER[part].keys()


@pytest.mark.parametrize("part, name", [(part, name) for part, fields in SAME.items() for name in fields])
def test_ids_times_revision_stamp_and_completions_do_not_count(part: type[Any], name: str) -> None:
    """Change what two tries of one turn may carry differently."""
    assert turn_hash(changed(part, name, SAME[part][name])) == turn_hash(TURN)


@pytest.mark.parametrize("part, name", [(part, name) for part, fields in OTHER.items() for name in fields])
def test_everything_else_counts(part: type[Any], name: str) -> None:
    """Change what is meant, to several things: every one of them has a hash of its own."""
    hashes = {turn_hash(changed(part, name, value)) for value in OTHER[part][name]}
    assert len(hashes) == len(OTHER[part][name])
    assert turn_hash(TURN) not in hashes


@pytest.mark.parametrize(
    "body",
    [
        with_message(id="m9"),
        with_message(created_at="tomorrow"),
        with_message(parts=[{"id": "p8", "text": "hello"}, {"id": "p9", "text": "there"}]),
        with_message(parts=({"text": "hello"}, {"text": "there"})),
    ],
)
def test_ids_inside_a_message_do_not_count(body: Any) -> None:
    """Give a message and its parts other ids and times."""
    assert turn_hash(changed(SessionNode, "body", body)) == turn_hash(TURN)


@pytest.mark.parametrize(
    "body",
    [
        {"id": 1, "created_at": 1},
        {"message": "text", "id": 1},
        {"message": {"parts": "text"}},
        {"message": {"parts": [1]}},
    ],
)
def test_other_bodies_count_as_they_are(body: Any) -> None:
    """Commit bodies that only look like messages: nothing of them is left out."""
    one = turn_hash(changed(SessionNode, "body", body))
    assert one != turn_hash(changed(SessionNode, "body", {**body, "id": 2}))
    assert one != turn_hash(TURN)


def test_attachments_are_a_set() -> None:
    """Name the same attachments in another order."""
    assert turn_hash(changed(TurnCommit, "attachments", ("a2", "a1"))) == turn_hash(TURN)


def test_bytes_do_not_move_between_fields() -> None:
    """Put the same bytes into another place."""
    states = [
        SessionCheckpoint(tool_state=b"x"),
        SessionCheckpoint(plugin_snapshot=b"x"),
        SessionCheckpoint(execution_state=b"x"),
    ]
    hashes = {turn_hash(TurnCommit(session_id="s", checkpoint=state)) for state in states}
    snapshots = [
        TurnCommit(session_id="s", frames=(Frame(frame_id="a", snapshot=b"x"), Frame(frame_id="b"))),
        TurnCommit(session_id="s", frames=(Frame(frame_id="a"), Frame(frame_id="b", snapshot=b"x"))),
    ]
    assert len(hashes | {turn_hash(turn) for turn in snapshots}) == 5


def test_hashing_changes_nothing() -> None:
    """Hash a turn and look at the message again: ids are left out of the hash, not of the turn."""
    turn_hash(TURN)
    assert NODE.body["message"]["id"] == "m1"
    assert NODE.body["message"]["parts"][0]["id"] == "p1"


def test_turns_have_the_same_hash_in_every_version() -> None:
    """Compare with hashes that stores already hold: a retry after an upgrade must be recognised."""
    assert (
        turn_hash(TurnCommit(session_id="s"))
        == "22f1d753e70dd520207870cda23461bba4835a5f96637c73c0e7535b4b79d1ac"
    )
    assert turn_hash(TURN) == "5fcf577fccf2fbdcc758a2d852a73bdc648ad54b97f1f85def6a63815a872780"


# ── size ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_may_be_larger_than_one_document() -> None:
    """Hash a turn whose parts are each within the limit and together far above it."""
    large = "x" * (JSON_BYTES_MAX - 2)
    nodes = tuple(SessionNode(node_id=f"n{n}", body=large) for n in range(4))
    frame = Frame(frame_id="f", assignment=large, options=large, snapshot=bytes(JSON_BYTES_MAX + 1))
    turn = TurnCommit(
        session_id="s", nodes=nodes, frames=(frame,), checkpoint=SessionCheckpoint(options=large)
    )
    assert turn_hash(turn) != turn_hash(msgspec.structs.replace(turn, nodes=nodes[:3]))


def test_a_turn_may_have_many_nodes() -> None:
    """Replace a long conversation as a whole, as a compaction does."""
    nodes = tuple(SessionNode(node_id=str(n), body=n) for n in range(10_000))
    assert len(turn_hash(TurnCommit(session_id="s", nodes=nodes, replace=True))) == 64


def test_a_part_may_be_as_deep_as_a_document() -> None:
    """Hash bodies nested to the limit; one level more is refused with the place."""
    body: Any = 1
    for _ in range(JSON_DEPTH_MAX):
        body = [body]
    turn_hash(
        TurnCommit(
            session_id="s",
            nodes=(SessionNode(node_id="n", body=body),),
            checkpoint=SessionCheckpoint(options=body),
        )
    )
    with pytest.raises(InvalidPayload, match="nested deeper"):
        turn_hash(TurnCommit(session_id="s", nodes=(SessionNode(node_id="n", body=[body]),)))


def test_a_part_that_no_store_takes_is_refused() -> None:
    """Hash a body that is too large, and one that is no JSON."""
    with pytest.raises(TooLarge):
        turn_hash(TurnCommit(session_id="s", nodes=(SessionNode(node_id="n", body="x" * JSON_BYTES_MAX),)))
    with pytest.raises(InvalidPayload):
        turn_hash(TurnCommit(session_id="s", checkpoint=SessionCheckpoint(options=float("nan"))))


# ── stamps ────────────────────────────────────────────────────────────────────────────────────────


def test_a_stamp_names_session_turn_and_meaning() -> None:
    """Stamp a turn, twice: the stamp itself does not count."""
    once = stamp_commit(TURN, "turn-7")
    assert once.stamp == TurnStamp("s", "turn-7", turn_hash(TURN))
    assert stamp_commit(once, "turn-7") == once
    assert msgspec.structs.replace(once, stamp=TURN.stamp) == TURN
    with pytest.raises(InvalidName, match="turn id"):
        stamp_commit(TURN, "a\0b")


# ── paths ─────────────────────────────────────────────────────────────────────────────────────────


def path(parents: dict[str, str | None], leaf: str | None) -> list[str]:
    nodes = [SessionNode(node_id=node_id, parent_node_id=parent) for node_id, parent in parents.items()]
    return [node.node_id for node in active_path(nodes, leaf)]


def test_a_path_is_the_ancestry_of_its_leaf_oldest_first() -> None:
    """Walk two branches of a tree that is stored in no order."""
    tree = {"left": "b", "a": None, "right": "b", "b": "a", "deep": "right"}
    assert path(tree, "left") == ["a", "b", "left"]
    assert path(tree, "deep") == ["a", "b", "right", "deep"]
    assert path(tree, "a") == ["a"]


def test_a_path_ends_where_nothing_is_known() -> None:
    """Walk from no leaf, from an unknown one, and up to a parent that is missing."""
    tree: dict[str, str | None] = {"b": "gone", "c": "b"}
    assert path(tree, None) == []
    assert path(tree, "unknown") == []
    assert path(tree, "c") == ["b", "c"]
    assert path({}, "c") == []


@pytest.mark.parametrize(
    "circle, leaf, expected",
    [
        ({"a": "a"}, "a", ["a"]),
        ({"a": "b", "b": "a"}, "a", ["b", "a"]),
        ({"a": "c", "b": "a", "c": "b", "leaf": "c"}, "leaf", ["a", "b", "c", "leaf"]),
    ],
)
def test_a_circle_is_walked_once(circle: dict[str, str | None], leaf: str, expected: list[str]) -> None:
    """Walk graphs that bite their tail: damage, but no endless loop."""
    assert path(circle, leaf) == expected


@given(st.dictionaries(st.integers(0, 8), st.none() | st.integers(0, 9)), st.none() | st.integers(0, 9))
def test_any_path_is_linked_and_has_no_node_twice(parents: dict[int, int | None], leaf: int | None) -> None:
    """Walk random graphs with circles and gaps, and follow the links by hand."""
    walked = path({str(k): None if v is None else str(v) for k, v in parents.items()}, str(leaf))
    assert len(walked) == len(set(walked))
    assert walked[-1:] == ([str(leaf)] if leaf in parents else [])
    for parent, child in itertools.pairwise(walked):
        assert str(parents[int(child)]) == parent
    if walked:
        beyond = parents[int(walked[0])]
        assert beyond not in parents or str(beyond) in walked


# ── checks ────────────────────────────────────────────────────────────────────────────────────────


def test_a_good_commit_is_taken_as_it_is() -> None:
    """Check the smallest commit and one with everything."""
    assert check_commit(TURN) is TURN
    smallest = TurnCommit(session_id="s")
    assert check_commit(smallest) is smallest


@pytest.mark.parametrize(
    "commit, error, word",
    [
        (TurnCommit(session_id=""), InvalidName, "session id"),
        (TurnCommit(session_id="a\0b"), InvalidName, "session id"),
        (
            TurnCommit(session_id="s", stamp=TurnStamp("other", "t", "h")),
            InvalidPayload,
            "'other', the commit for 's'",
        ),
        (TurnCommit(session_id="s", stamp=TurnStamp("s", "a\0b", "h")), InvalidName, "turn id"),
        (TurnCommit(session_id="s", nodes=(SessionNode(node_id=""),)), InvalidName, "node id"),
        (
            TurnCommit(session_id="s", nodes=(SessionNode(node_id="a"), SessionNode(node_id="\ud800"))),
            InvalidName,
            "node id",
        ),
        (
            TurnCommit(session_id="s", nodes=(SessionNode(node_id="a"), SessionNode(node_id="a", body=1))),
            InvalidPayload,
            "two nodes",
        ),
        (
            TurnCommit(session_id="s", nodes=(SessionNode(node_id="a", at=2**63),)),
            InvalidPayload,
            "a node's time",
        ),
        (TurnCommit(session_id="s", frames=(Frame(frame_id="a\0b"),)), InvalidName, "frame id"),
        (
            TurnCommit(session_id="s", frames=(Frame(frame_id="a", created_at=2**63),)),
            InvalidPayload,
            "a frame's time",
        ),
        *[
            (
                TurnCommit(session_id="s", usage=(Usage(source="s", model="m", **{name: 2**63}),)),
                InvalidPayload,
                name,
            )
            for name in ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")
        ],
    ],
)
def test_a_commit_that_does_not_fit_together_is_refused(
    commit: TurnCommit, error: type[Exception], word: str
) -> None:
    """Check commits with one fault each; the error names the part."""
    with pytest.raises(error) as caught:
        check_commit(commit)
    assert word in str(caught.value)
