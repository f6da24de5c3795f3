"""Sessions over SQL."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import OutcomeUnknown, StoreCorrupt
from holdfast.model import canonical
from holdfast.model.ids import check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.model.session import (
    CollectionResult,
    CommitResult,
    Frame,
    Graph,
    SessionMeta,
    SessionNode,
    SessionRecord,
    SessionView,
    TurnCommit,
    Usage,
    VacuumResult,
    active_path,
)
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.ports.sessions import FULL_GRAPH, SessionScope
from holdfast.store.tables.blobs import collect_in
from holdfast.store.tables.checkpoints import load_checkpoint
from holdfast.store.tables.job_listing import ascii_lower
from holdfast.store.tables.payloads import need_namespace, read_json, read_struct
from holdfast.store.tables.turn_rows import turn_of
from holdfast.store.tables.turns import bind, commit_at_once, write_in


class SqlSessions:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def commit(
        self, commit: TurnCommit, *, handle: str | None = None, namespace: str = DEFAULT_NAMESPACE
    ) -> CommitResult:
        turn = turn_of(commit)
        if self._executor.batches and handle is None and turn.is_plain:
            done = await commit_at_once(self._executor, turn, namespace=namespace)
            if done is not None:
                return done
        tried: list[CommitResult] = []

        async def work(tx: Transaction) -> CommitResult:
            if tried and commit.stamp is None:
                msg = f"the reply to an unstamped turn of session {commit.session_id} was lost"
                raise OutcomeUnknown(msg, hint="Load the session to see. A stamped turn recognises itself.")
            tried.append(await write_in(tx, turn, namespace=namespace, handle=handle))
            return tried[-1]

        return await self._executor.write(work)

    async def load(
        self, session_id: str, scope: SessionScope = FULL_GRAPH, *, namespace: str = DEFAULT_NAMESPACE
    ) -> SessionView | None:
        async def work(tx: Transaction) -> SessionView | None:
            return await _load_in(tx, session_id, scope, namespace)

        return await self._executor.read(work, snapshot=True)

    async def list(
        self,
        *,
        text: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Page[SessionRecord]:
        before = None if cursor is None else str(decode_cursor("sessions", cursor, keys=1)[0])
        lowered = None if text is None else ascii_lower(text)

        async def work(tx: Transaction) -> Sequence[Row]:
            place = {"namespace": namespace, "before": before, "text": lowered}
            return await tx.rows("list_sessions", limit=limit + 1, **place)

        found = [SessionRecord(*row) for row in await self._executor.read(work)]
        more = encode_cursor("sessions", found[limit - 1].session_id) if len(found) > limit > 0 else None
        return Page(tuple(found[:limit]), more)

    async def find_bound_session(self, handle: str, *, namespace: str = DEFAULT_NAMESPACE) -> str | None:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("find_session_by_handle", namespace=namespace, handle=handle)

        row = await self._executor.read(work, brief=True)
        return None if row is None else str(row[0])

    async def node(
        self, session_id: str, node_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> SessionNode | None:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("load_node", namespace=namespace, session_id=session_id, node_id=node_id)

        row = await self._executor.read(work, brief=True)
        return None if row is None else _to_node(row)

    async def save_meta(
        self, meta: SessionMeta, *, handle: str | None = None, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        check_name(meta.session_id, "session id")
        body = canonical.encode(msgspec.structs.asdict(meta))

        async def work(tx: Transaction) -> None:
            await need_namespace(tx, namespace)
            await tx.run("ensure_session", namespace=namespace, session_id=meta.session_id)
            await bind(tx, namespace, handle, meta.session_id)
            await tx.run("save_meta", namespace=namespace, session_id=meta.session_id, meta=body)

        await self._executor.write(work)

    async def meta(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> SessionMeta | None:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("load_meta", namespace=namespace, session_id=session_id)

        row = await self._executor.read(work, brief=True)
        return None if row is None else read_struct(SessionMeta, row[0], f"meta of {session_id}")

    async def tombstone(
        self, session_id: str, node_ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE
    ) -> int:
        async def work(tx: Transaction) -> int:
            hidden = 0
            for node_id in sorted(set(node_ids)):
                row = await tx.row("hide_node", namespace=namespace, session_id=session_id, node_id=node_id)
                hidden += row is not None
            return hidden

        return await self._executor.write(work)

    async def vacuum(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> VacuumResult:
        async def work(tx: Transaction) -> VacuumResult:
            rows = await tx.rows("remove_hidden_nodes", namespace=namespace, session_id=session_id)
            return VacuumResult(len(rows))

        return await self._executor.write(work)

    async def gc(self, *, older_than_us: int = 0, namespace: str = DEFAULT_NAMESPACE) -> CollectionResult:
        async def work(tx: Transaction) -> CollectionResult:
            return await collect_in(tx, namespace, older_than_us)

        return await self._executor.write(work)


async def _load_in(
    tx: Transaction, session_id: str, scope: SessionScope, namespace: str
) -> SessionView | None:
    place = {"namespace": namespace, "session_id": session_id}
    head = await tx.row("load_session", **place)
    if head is None:
        return None
    revision, leaf, frame_id, document, digest, states = head
    usage: Sequence[Row] = ()
    if not scope.head_only:
        usage = await tx.rows("load_usage", **place)
    if scope.head_only:
        nodes: tuple[SessionNode, ...] = ()
    elif scope.active_path:
        leaf = leaf if scope.leaf_node_id is None else scope.leaf_node_id
        ancestry = await tx.rows("load_path", leaf_node_id=leaf, **place)
        nodes = active_path(map(_to_node, ancestry), leaf)
    else:
        nodes = tuple(map(_to_node, await tx.rows("load_nodes", **place)))
    return SessionView(
        session_id=session_id,
        revision=revision,
        graph=Graph(nodes, leaf),
        frames=tuple(_to_frame(row) for row in await tx.rows("load_frames", **place)),
        frame_id=frame_id,
        checkpoint=await load_checkpoint(tx, namespace, document, states),
        checkpoint_ref=digest.hex(),
        usage=tuple(_to_usage(row) for row in usage),
    )


def _to_node(row: Row) -> SessionNode:
    node_id, parent, frame_id, caused_by, at, body = row
    return SessionNode(
        node_id=node_id,
        parent_node_id=parent,
        body=read_json(body, f"node {node_id}"),
        caused_by=caused_by,
        frame_id=frame_id,
        at=at,
    )


def _to_frame(row: Row) -> Frame:
    frame_id, previous, status, reason, caused_by, created_at, assignment, snapshot = row
    pair = read_json(assignment, f"frame {frame_id}")
    if not isinstance(pair, list) or len(pair) != 2:
        msg = f"frame {frame_id} does not say what it is assigned to"
        raise StoreCorrupt(msg)
    assigned, options = pair
    return Frame(
        frame_id=frame_id,
        previous_frame_id=previous,
        status=status,
        reason=reason,
        caused_by=caused_by,
        created_at=created_at,
        assignment=assigned,
        options=options,
        snapshot=snapshot,
    )


def _to_usage(row: Row) -> Usage:
    return Usage(**dict(zip(Usage.__struct_fields__, row, strict=True)))
