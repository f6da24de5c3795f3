"""Sessions in memory: turn commits and loading."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.errors import HeadMoved, SessionBound, TurnConflict
from holdfast.model import canonical
from holdfast.model.ids import check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.model.session import (
    CollectionResult,
    CommitResult,
    Frame,
    Graph,
    SessionCheckpoint,
    SessionMeta,
    SessionNode,
    SessionRecord,
    SessionView,
    TurnCommit,
    Usage,
    VacuumResult,
    active_path,
    check_commit,
)
from holdfast.store.memory.attachments import stamp
from holdfast.store.memory.blobs import collect, keep_large
from holdfast.store.memory.inbox import check_owned, complete
from holdfast.store.memory.state import (
    MemoryState,
    MemoryTransaction,
    SessionRow,
    TurnRow,
    pack_struct,
    unpack_struct,
)
from holdfast.store.ports.sessions import FULL_GRAPH, SessionScope


class MemorySessions:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def commit(
        self, commit: TurnCommit, *, handle: str | None = None, namespace: str = DEFAULT_NAMESPACE
    ) -> CommitResult:
        with self._state.transaction() as work:
            return commit_turn(work, namespace, commit, handle)

    async def load(
        self, session_id: str, scope: SessionScope = FULL_GRAPH, *, namespace: str = DEFAULT_NAMESPACE
    ) -> SessionView | None:
        session = self._get_row(namespace, session_id)
        if session.checkpoint is None:  # nothing was committed yet
            return None
        return SessionView(
            session_id=session_id,
            revision=session.revision,
            graph=_build_graph(session, scope),
            frames=tuple(unpack_struct(frame, "assignment", "options") for frame in session.frames.values()),
            frame_id=session.frame_id,
            checkpoint=unpack_struct(session.checkpoint, "options"),
            checkpoint_ref=session.checkpoint_ref,
            usage=() if scope.head_only else _merge_usage(session.usage),
        )

    async def list(
        self,
        *,
        text: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Page[SessionRecord]:
        job_times: dict[str, list[int]] = {}
        for row in self._state.tables.jobs.values():
            if row.head.namespace == namespace and row.head.session_id is not None:
                job_times.setdefault(row.head.session_id, []).append(row.submission.created_at)
        committed = {
            name: session.revision
            for (owner, name), session in self._state.tables.sessions.items()
            if owner == namespace and session.revision
        }
        names = sorted(job_times.keys() | committed.keys(), reverse=True)
        if text is not None:
            names = [name for name in names if _lower_ascii(text) in _lower_ascii(name)]
        if cursor is not None:
            (last,) = decode_cursor("sessions", cursor, keys=1)
            names = [name for name in names if name < str(last)]
        page = tuple(
            SessionRecord(
                name,
                committed.get(name, 0),
                len(job_times.get(name, ())),
                max(job_times.get(name, ()), default=None),
            )
            for name in names[:limit]
        )
        return Page(page, encode_cursor("sessions", names[limit - 1]) if len(names) > limit > 0 else None)

    async def find_bound_session(self, handle: str, *, namespace: str = DEFAULT_NAMESPACE) -> str | None:
        return self._state.tables.handles.get((namespace, handle))

    async def node(
        self, session_id: str, node_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> SessionNode | None:
        session = self._get_row(namespace, session_id)
        if node_id not in session.nodes or node_id in session.hidden:
            return None
        return unpack_struct(session.nodes[node_id], "body")

    async def save_meta(
        self, meta: SessionMeta, *, handle: str | None = None, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        check_name(meta.session_id, "session id")
        stored = pack_struct(meta, "relation")
        with self._state.transaction() as work:
            work.need_namespace(namespace)
            _check_binding(work, namespace, handle, meta.session_id)
            _bind(work, namespace, handle, meta.session_id)
            session = work.tables.sessions.get((namespace, meta.session_id), SessionRow())
            changed = dataclasses.replace(session, meta=stored)
            work.tables.sessions[namespace, meta.session_id] = changed

    async def meta(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> SessionMeta | None:
        meta = self._get_row(namespace, session_id).meta
        return None if meta is None else unpack_struct(meta, "relation")

    async def tombstone(
        self, session_id: str, node_ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE
    ) -> int:
        with self._state.transaction() as work:
            session = work.tables.sessions.get((namespace, session_id))
            if session is None:
                return 0
            newly = (set(node_ids) & session.nodes.keys()) - session.hidden
            hidden = session.hidden | newly
            work.tables.sessions[namespace, session_id] = dataclasses.replace(session, hidden=hidden)
            return len(newly)

    async def vacuum(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> VacuumResult:
        with self._state.transaction() as work:
            session = work.tables.sessions.get((namespace, session_id))
            if session is None:
                return VacuumResult(0)
            visible = {
                node_id: node for node_id, node in session.nodes.items() if node_id not in session.hidden
            }
            swept = dataclasses.replace(session, nodes=visible, hidden=frozenset())
            work.tables.sessions[namespace, session_id] = swept
            return VacuumResult(len(session.hidden))

    async def gc(self, *, older_than_us: int = 0, namespace: str = DEFAULT_NAMESPACE) -> CollectionResult:
        with self._state.transaction() as work:
            return collect(work, namespace, older_than_us)

    def _get_row(self, namespace: str, session_id: str) -> SessionRow:
        return self._state.tables.sessions.get((namespace, session_id), SessionRow())


# ── committing ────────────────────────────────────────────────────────────────────────────────────


def commit_turn(
    work: MemoryTransaction, namespace: str, commit: TurnCommit, handle: str | None = None
) -> CommitResult:
    """Commit the turn, or return the result of an earlier try. The contract defines the order of the checks."""
    check_commit(commit)
    work.need_namespace(namespace)
    place = (namespace, commit.session_id)
    session = work.tables.sessions.get(place, SessionRow())
    _check_binding(work, namespace, handle, commit.session_id)
    first = _find_replay(session, commit)
    if first is not None:
        return first
    _check_head(session, commit)
    used = [row for done in commit.completes for row in check_owned(work, namespace, commit.session_id, done)]
    session = _advance(session, commit)
    work.tables.sessions[place] = session
    _keep_bodies(work, namespace, commit)
    complete(work, namespace, commit.session_id, used, "" if commit.stamp is None else commit.stamp.turn_id)
    stamp(work, namespace, commit.attachments)
    _bind(work, namespace, handle, commit.session_id)
    return CommitResult(session.revision, session.checkpoint_ref)


def _check_binding(work: MemoryTransaction, namespace: str, handle: str | None, session_id: str) -> None:
    if handle is not None:
        check_name(handle, "handle")
    bound = None if handle is None else work.tables.handles.get((namespace, handle))
    if bound not in (None, session_id):
        raise SessionBound(f"handle {handle!r} serves session {bound!r}, not {session_id!r}")


def _bind(work: MemoryTransaction, namespace: str, handle: str | None, session_id: str) -> None:
    if handle is not None:
        work.tables.handles[namespace, handle] = session_id


def _find_replay(session: SessionRow, commit: TurnCommit) -> CommitResult | None:
    """The result of an earlier commit of this turn, if there was one."""
    turn = None if commit.stamp is None else session.turns.get(commit.stamp.turn_id)
    if commit.stamp is None or turn is None:
        return None
    if turn.turn_hash != commit.stamp.turn_hash:
        raise TurnConflict(f"turn {commit.stamp.turn_id!r} was committed with other content")
    return msgspec.structs.replace(turn.result, replayed=True)


def _check_head(session: SessionRow, commit: TurnCommit) -> None:
    if commit.expected_revision not in (None, session.revision):
        raise HeadMoved(
            f"session {commit.session_id!r} is at revision {session.revision}, not {commit.expected_revision}",
            expected=commit.expected_revision,
            actual=session.revision,
        )


def _advance(session: SessionRow, commit: TurnCommit) -> SessionRow:
    """The session one revision further. A node or frame that already exists keeps its position and gets the new
    content."""
    new = {node.node_id: pack_struct(node, "body") for node in commit.nodes}
    old_leaf = None if commit.replace else session.leaf_node_id
    last = commit.nodes[-1].node_id if commit.nodes else old_leaf
    result = CommitResult(session.revision + 1, _make_checkpoint_ref(commit.checkpoint))
    turns = dict(session.turns)
    if commit.stamp is not None:
        turns[commit.stamp.turn_id] = TurnRow(turn_hash=commit.stamp.turn_hash, result=result)
    return dataclasses.replace(
        session,
        revision=result.revision,
        nodes=new if commit.replace else {**session.nodes, **new},
        hidden=frozenset() if commit.replace else session.hidden - new.keys(),
        leaf_node_id=commit.leaf_node_id if commit.leaf_node_id is not None else last,
        frames={**session.frames, **_pack_frames(commit.frames)},
        frame_id=commit.frame_id if commit.frame_id is not None else session.frame_id,
        checkpoint=pack_struct(commit.checkpoint, "options"),
        checkpoint_ref=result.checkpoint_ref,
        usage=session.usage + commit.usage,
        turns=turns,
    )


def _pack_frames(frames: Iterable[Frame]) -> Mapping[str, Frame]:
    return {frame.frame_id: pack_struct(frame, "assignment", "options") for frame in frames}


def _keep_bodies(work: MemoryTransaction, namespace: str, commit: TurnCommit) -> None:
    """Store every large body of the turn as a blob."""
    for node in commit.nodes:
        keep_large(work, namespace, canonical.encode(node.body))
    for frame in commit.frames:
        keep_large(work, namespace, frame.snapshot)
    keep_large(work, namespace, commit.checkpoint.tool_state)
    keep_large(work, namespace, commit.checkpoint.plugin_snapshot)
    keep_large(work, namespace, commit.checkpoint.execution_state)


def _make_checkpoint_ref(checkpoint: SessionCheckpoint) -> str:
    """The hex SHA-256 of the checkpoint's document, in which bytes are replaced by their digests."""
    document = {
        name: hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else value
        for name, value in msgspec.structs.asdict(checkpoint).items()
    }
    return hashlib.sha256(canonical.encode(document)).hexdigest()


# ── loading ───────────────────────────────────────────────────────────────────────────────────────


def _build_graph(session: SessionRow, scope: SessionScope) -> Graph:
    visible = [node for node_id, node in session.nodes.items() if node_id not in session.hidden]
    leaf = session.leaf_node_id
    if scope.head_only:
        return Graph((), leaf)
    if scope.active_path:
        leaf = leaf if scope.leaf_node_id is None else scope.leaf_node_id
        visible = list(active_path(visible, leaf))
    return Graph(tuple(unpack_struct(node, "body") for node in visible), leaf)


def _merge_usage(usage: Iterable[Usage]) -> tuple[Usage, ...]:
    """The sums by source and model, in the order of first use."""
    sums: dict[tuple[str, str], Usage] = {}
    for used in usage:
        so_far = sums.get((used.source, used.model), Usage(source=used.source, model=used.model))
        sums[used.source, used.model] = Usage(
            source=used.source,
            model=used.model,
            input_tokens=so_far.input_tokens + used.input_tokens,
            output_tokens=so_far.output_tokens + used.output_tokens,
            cached_input_tokens=so_far.cached_input_tokens + used.cached_input_tokens,
            reasoning_tokens=so_far.reasoning_tokens + used.reasoning_tokens,
        )
    return tuple(sums.values())


def _lower_ascii(text: str) -> str:
    """A to Z in lower case; other letters unchanged."""
    return "".join(char.lower() if char.isascii() else char for char in text)
