"""Sessions: the conversation graph, and the inbox."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from holdfast.api.context import ApiContext
from holdfast.api.operation import Created, operation
from holdfast.api.requests import Name, OperationRequest, Whole
from holdfast.errors import InvalidMove, KeyReused, NotFound
from holdfast.model import canonical
from holdfast.model.access import AccessScope
from holdfast.model.ids import check_name
from holdfast.model.inbox import BatchDraft, BatchState, Delivery, InboxBatch, ItemDraft, SlotPolicy
from holdfast.model.session import SessionNode, SessionView, Usage
from holdfast.store.ports.sessions import ACTIVE_PATH, FULL_GRAPH

_GRAPHS: Final = {"full": FULL_GRAPH, "active": ACTIVE_PATH, "none": ACTIVE_PATH}


class FrameShape(msgspec.Struct, frozen=True, kw_only=True):
    frame_id: str
    previous_frame_id: str | None
    status: str
    reason: str
    created_at: int


class SessionShape(msgspec.Struct, frozen=True, kw_only=True):
    """A session as of its head: nodes as requested, the ids from root to leaf, and its usage."""

    session_id: str
    revision: int
    leaf_node_id: str | None
    active_path: tuple[str, ...]
    nodes: tuple[SessionNode, ...]
    frames: tuple[FrameShape, ...]
    frame_id: str | None
    turn_index: int
    checkpoint_ref: str
    usage: tuple[Usage, ...]


class GetSession(OperationRequest, frozen=True, kw_only=True):
    session_id: Name
    graph: Literal["full", "active", "none"] = "full"


@operation(
    "GET", "/api/sessions/{session_id}", scope=AccessScope.READ, errors=(404, 422), session="session_id"
)
async def get_session(api: ApiContext, request: GetSession) -> SessionShape:
    """Get a session as of its head: graph, active path, usage."""
    session_id = check_name(request.session_id, "session id")
    view = await api.store.sessions.load(session_id, _GRAPHS[request.graph], namespace=api.namespace)
    if view is None:
        msg = f"there is no session {session_id!r}"
        raise NotFound(msg, hint="A session begins with its first turn.")
    return _shape(view, with_nodes=request.graph != "none")


def _shape(view: SessionView, *, with_nodes: bool) -> SessionShape:
    return SessionShape(
        session_id=view.session_id,
        revision=view.revision,
        leaf_node_id=view.graph.leaf_node_id,
        active_path=_active_path(view.graph.nodes, view.graph.leaf_node_id),
        nodes=view.graph.nodes if with_nodes else (),
        frames=tuple(
            FrameShape(
                frame_id=frame.frame_id,
                previous_frame_id=frame.previous_frame_id,
                status=frame.status,
                reason=frame.reason,
                created_at=frame.created_at,
            )
            for frame in view.frames
        ),
        frame_id=view.frame_id,
        turn_index=view.checkpoint.turn_index,
        checkpoint_ref=view.checkpoint_ref,
        usage=view.usage,
    )


def _active_path(nodes: tuple[SessionNode, ...], leaf: str | None) -> tuple[str, ...]:
    """The ids from the root to the leaf, as far as they exist."""
    parents = {node.node_id: node.parent_node_id for node in nodes}
    path: list[str] = []
    while leaf in parents and leaf not in path:
        path.append(leaf)
        leaf = parents[leaf]
    return tuple(reversed(path))


# ── inbox ─────────────────────────────────────────────────────────────────────────────────────────


class BatchList(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[InboxBatch, ...]


class ListInbox(OperationRequest, frozen=True, kw_only=True):
    session_id: Name


@operation("GET", "/api/sessions/{session_id}/inbox", scope=AccessScope.READ, session="session_id")
async def list_inbox(api: ApiContext, request: ListInbox) -> BatchList:
    """List the queued batches of a session, in order."""
    session_id = check_name(request.session_id, "session id")
    return BatchList(items=tuple(await api.store.inbox.list(session_id, namespace=api.namespace)))


class BatchItem(OperationRequest, frozen=True, kw_only=True):
    kind: Name
    payload: Any = None


class EnqueueBatch(OperationRequest, frozen=True, kw_only=True):
    """Input for a session. Its `request_key` or `Idempotency-Key` is the batch's source key."""

    session_id: Name
    items: Annotated[tuple[BatchItem, ...], Meta(min_length=1)]
    delivery: Delivery = Delivery.EARLIEST_SAFE_BOUNDARY
    slot: SlotPolicy = SlotPolicy.EXCLUSIVE
    merge_key: str = "never"
    available_at: Whole = 0
    request_key: Name | None = None


@operation(
    "POST",
    "/api/sessions/{session_id}/inbox",
    scope=AccessScope.OPERATE,
    errors=(409, 415, 422),
    submits=True,
    session="session_id",
)
async def enqueue_batch(api: ApiContext, request: EnqueueBatch) -> Created[InboxBatch]:
    """Add a batch to the inbox of a session."""
    draft = BatchDraft(
        session_id=check_name(request.session_id, "session id"),
        items=tuple(ItemDraft(item.kind, item.payload) for item in request.items),
        delivery=request.delivery,
        slot=request.slot,
        merge_key=request.merge_key,
        source_key=request.request_key,
        available_at=request.available_at,
        batch_id=api.ids.new("batch"),
    )
    batch = await api.store.inbox.enqueue(draft, namespace=api.namespace)
    is_new = batch.batch_id == draft.batch_id
    if not is_new:
        _check_same(batch, draft)
    return Created(batch, is_new=is_new)


def _check_same(stored: InboxBatch, draft: BatchDraft) -> None:
    """Checks that the batch found by a source key is the one that was sent. The items of a settled batch are gone,
    and not compared."""
    was, now = (_digest(stored, with_items=bool(stored.items)), _digest(draft, with_items=bool(stored.items)))
    if was != now:
        msg = f"source key {draft.source_key!r} was used for another batch"
        raise KeyReused(msg, stored=was, sent=now)


def _digest(batch: InboxBatch | BatchDraft, *, with_items: bool) -> str:
    items = [[item.kind, item.payload] for item in batch.items] if with_items else []
    return canonical.hex_digest(
        canonical.encode([batch.delivery, batch.slot, batch.merge_key, batch.available_at, items])
    )


class CancelBatch(OperationRequest, frozen=True, kw_only=True):
    session_id: Name
    batch_id: Name


@operation(
    "DELETE",
    "/api/sessions/{session_id}/inbox/{batch_id}",
    scope=AccessScope.OPERATE,
    errors=(404, 409),
    session="session_id",
)
async def cancel_batch(api: ApiContext, request: CancelBatch) -> InboxBatch:
    """Withdraw a queued batch; returns it."""
    session_id = check_name(request.session_id, "session id")
    batch_id = check_name(request.batch_id, "batch id")
    batch = await api.store.inbox.cancel(session_id, batch_id, namespace=api.namespace)
    if batch is not None:
        return batch
    existing = await api.store.inbox.find(session_id, batch_id, namespace=api.namespace)
    if existing is None:
        msg = f"session {session_id!r} has no batch {batch_id!r}"
        raise NotFound(msg, hint="GET its inbox for the queued batches.")
    if existing.state is BatchState.CANCELLED:
        return existing
    why = "a turn has it" if existing.state is BatchState.QUEUED else f"it is {existing.state}"
    msg = f"batch {batch_id!r} cannot be withdrawn: {why}"
    raise InvalidMove(msg, hint="Delivered input is part of the session. Send a correction instead.")
