"""Sessions: a conversation that outlives jobs, as a graph of nodes, frames inside it, and turns that advance it.

Everything visible in a session changes through one atomic *turn commit*. Its parts are data here; the store writes them
in one transaction, after these checks, in this order:

    1. binding      a handle serves one session; another id is rejected
    2. stamp        the same turn id with the same hash returns the first result, with another hash it conflicts
    3. head         if the caller names the revision it built on, that must still be the head
    4. claims       every completed inbox claim must still own its batches, by token
    5. write        nodes, frames, checkpoint, usage, head + 1, completed batches, attachment stamps, the turn stamp

The stamp comes before the rest so that a retry succeeds although its claim is gone and the head has moved.

The turn hash identifies *meaning*: two attempts of one turn carry different node ids and times, and must hash alike, so
ids, times, the expected revision, the stamp and the completions are left out of it. It covers every body by its digest:
a turn may be as large as its parts together, and each part as large and as deep as the store accepts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model import canonical, redaction
from holdfast.model.ids import check_integer, check_name
from holdfast.model.inbox import Completion
from holdfast.model.limits import BLOB_BYTES_MAX

Json = Any

_TURN_BYTES_MAX: Final = BLOB_BYTES_MAX
"""Upper bound of the bytes that a turn hash covers: about two hundred for a node, whatever its body."""


class SessionNode(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the conversation graph. Siblings are branches."""

    node_id: str
    parent_node_id: str | None = None
    body: Json = None
    caused_by: str | None = None
    frame_id: str | None = None
    at: int = 0


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A context boundary inside a session: after a compaction, a change of plan, a hand-over."""

    frame_id: str
    previous_frame_id: str | None = None
    status: str = "active"
    reason: str = "initial"
    caused_by: str | None = None
    created_at: int = 0
    assignment: Json = None
    options: Json = None
    snapshot: bytes | None = None


class SessionCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state that the next turn starts from. Large states are bytes and are stored once, by content."""

    turn_index: int = 0
    options: Json = None
    tool_state: bytes | None = None
    tool_generation: int | None = None
    plugin_snapshot: bytes | None = None
    plugin_revision: int | None = None
    execution_state: bytes | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0


class TurnStamp(msgspec.Struct, frozen=True):
    session_id: str
    turn_id: str
    turn_hash: str


class TurnCommit(msgspec.Struct, frozen=True, kw_only=True):
    """One atomic advance of a session. `replace` swaps the whole graph; otherwise `nodes` are appended."""

    session_id: str
    nodes: tuple[SessionNode, ...] = ()
    leaf_node_id: str | None = None
    replace: bool = False
    frames: tuple[Frame, ...] = ()
    frame_id: str | None = None
    checkpoint: SessionCheckpoint = SessionCheckpoint()
    usage: tuple[Usage, ...] = ()
    expected_revision: int | None = None
    stamp: TurnStamp | None = None
    completes: tuple[Completion, ...] = ()
    attachments: tuple[str, ...] = ()


class CommitResult(msgspec.Struct, frozen=True):
    """The result of a turn commit; a retry of the same turn gets the same one back, marked `replayed`."""

    revision: int
    checkpoint_ref: str
    replayed: bool = False


class Graph(msgspec.Struct, frozen=True):
    nodes: tuple[SessionNode, ...]
    leaf_node_id: str | None


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded session."""

    session_id: str
    revision: int
    graph: Graph
    frames: tuple[Frame, ...]
    frame_id: str | None
    checkpoint: SessionCheckpoint
    checkpoint_ref: str
    usage: tuple[Usage, ...]


class SessionRecord(msgspec.Struct, frozen=True):
    """A session in a list. `revision` counts its commits; `spoken_at` is when its newest job was created."""

    session_id: str
    revision: int
    jobs: int
    spoken_at: int | None


class SessionMeta(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    name: str = ""
    created_at: str = ""
    model: str = ""
    cwd: str | None = None
    relation: Json = "root"


class VacuumResult(msgspec.Struct, frozen=True):
    removed_nodes: int


class CollectionResult(msgspec.Struct, frozen=True):
    """The result of a garbage collection: blobs in use, blobs kept because of their age, blobs removed."""

    roots: int
    retained: int
    deleted: int


# ── rules ─────────────────────────────────────────────────────────────────────────────────────────


def turn_hash(commit: TurnCommit) -> str:
    """The identity of a turn: equal for two attempts of the same turn, whatever ids and times they carry."""
    meaning = {
        "session_id": commit.session_id,
        "nodes": [_node_meaning(node) for node in commit.nodes],
        "replace": commit.replace,
        "frames": [_frame_meaning(frame) for frame in commit.frames],
        "frame_id": commit.frame_id,
        "checkpoint": _checkpoint_meaning(commit.checkpoint),
        "usage": [msgspec.structs.asdict(usage) for usage in commit.usage],
        "attachments": sorted(commit.attachments),
    }
    return hashlib.sha256(canonical.encode(meaning, bytes_max=_TURN_BYTES_MAX)).hexdigest()


def _node_meaning(node: SessionNode) -> Json:
    body = canonical.digest_of(_message_meaning(node.body)).hex()
    return {"body": body, "caused_by": node.caused_by, "frame_id": node.frame_id}


def _frame_meaning(frame: Frame) -> Json:
    fields = _drop_fields(msgspec.structs.asdict(frame), "created_at")
    fields["snapshot"] = _fingerprint(frame.snapshot)
    return fields | {name: canonical.digest_of(fields[name]).hex() for name in ("assignment", "options")}


def _message_meaning(body: Json) -> Json:
    """A conversation message without the ids of itself and its parts; any other body unchanged."""
    if not isinstance(body, Mapping) or not isinstance(body.get("message"), Mapping):
        return body
    message = _drop_fields(body["message"], "id", "created_at")
    parts = message.get("parts")
    if isinstance(parts, list | tuple):
        message["parts"] = [_drop_fields(part, "id") if isinstance(part, Mapping) else part for part in parts]
    return {**body, "message": message}


def _checkpoint_meaning(checkpoint: SessionCheckpoint) -> Json:
    fields = msgspec.structs.asdict(checkpoint)
    fields["options"] = canonical.digest_of(checkpoint.options).hex()
    return {
        name: _fingerprint(value) if isinstance(value, bytes) else value for name, value in fields.items()
    }


def _drop_fields(fields: Mapping[str, Json], *names: str) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if name not in names}


def _fingerprint(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def stamp_commit(commit: TurnCommit, turn_id: str) -> TurnCommit:
    """The commit with its stamp: from then on it can be retried safely."""
    stamp = TurnStamp(commit.session_id, check_name(turn_id, "turn id"), turn_hash(commit))
    return msgspec.structs.replace(commit, stamp=stamp)


def active_path(nodes: Iterable[SessionNode], leaf_node_id: str | None) -> tuple[SessionNode, ...]:
    """The ancestors of a leaf, oldest first. A missing parent ends the path, and so does a cycle."""
    by_id = {node.node_id: node for node in nodes}
    path: list[SessionNode] = []
    cursor = leaf_node_id
    while cursor is not None and (node := by_id.pop(cursor, None)) is not None:
        path.append(node)
        cursor = node.parent_node_id
    return tuple(reversed(path))


def check_commit(commit: TurnCommit) -> TurnCommit:
    """Return the commit, or raise an error that names the inconsistent part."""
    check_name(commit.session_id, "session id")
    if commit.stamp is not None:
        check_name(commit.stamp.turn_id, "turn id")
        if commit.stamp.session_id != commit.session_id:
            msg = (
                f"the stamp is for session {commit.stamp.session_id!r}, the commit for {commit.session_id!r}"
            )
            raise InvalidPayload(msg, hint="Stamp a commit with its own session id.")
    ids = [check_name(node.node_id, "node id") for node in commit.nodes]
    if len(set(ids)) != len(ids):
        msg = "two nodes of one commit have the same id"
        raise InvalidPayload(msg, hint="Give every node its own id.")
    for node in commit.nodes:
        check_integer(node.at, "a node's time")
    for frame in commit.frames:
        check_name(frame.frame_id, "frame id")
        check_integer(frame.created_at, "a frame's time")
    for usage in commit.usage:
        for field in _COUNTED:
            check_integer(getattr(usage, field), field)
    _check_texts(commit)
    return commit


def _check_texts(commit: TurnCommit) -> None:
    """Check that the texts stored beside the bodies hold no secret."""
    texts = [
        *(node.caused_by for node in commit.nodes),
        *(text for frame in commit.frames for text in (frame.status, frame.reason, frame.caused_by)),
        *(text for usage in commit.usage for text in (usage.source, usage.model)),
    ]
    if any(text and redaction.get_redactor().holds_secret(text) for text in texts):
        msg = "a turn names a cause, a reason, a source or a model that holds a secret"
        raise InvalidPayload(msg, hint="These are stored and shown in plain text. Leave the secret out.")


_COUNTED: Final = tuple(name for name in Usage.__struct_fields__ if name.endswith("_tokens"))
