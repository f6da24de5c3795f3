"""Sessions: the conversation, and the queue of what is said to it."""

from __future__ import annotations

from typing import Final

from holdfast.errors import InvalidMove, NotFound
from holdfast.model.access import AccessScope
from holdfast.model.ids import check_name
from holdfast.model.inbox import BatchDraft, BatchState, InboxBatch, ItemDraft
from holdfast.model.session import SessionNode, SessionView
from holdfast.server.endpoints import Endpoint
from holdfast.server.idempotency import REPLAYED, must_be_same
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.schemas import Batches, FrameShape, NewBatch, SessionShape, WhichGraph
from holdfast.store.ports.sessions import ACTIVE_PATH, FULL_GRAPH

_SCOPES: Final = {"full": FULL_GRAPH, "active": ACTIVE_PATH, "none": ACTIVE_PATH}


async def get_session(asked: ApiRequest) -> ApiResponse:
    """Get a session as of its head: graph, active path, usage."""
    session_id = check_name(asked.path["id"], "session id")
    which: WhichGraph = asked.query
    view = await asked.store.sessions.load(session_id, _SCOPES[which.graph], namespace=asked.namespace)
    if view is None:
        msg = f"there is no session {session_id!r}"
        raise NotFound(msg, hint="A session begins with its first turn.")
    return ApiResponse(value=_shape(view, with_nodes=which.graph != "none"), tagged=True)


def _shape(view: SessionView, *, with_nodes: bool) -> SessionShape:
    return SessionShape(
        session_id=view.session_id,
        revision=view.revision,
        leaf_node_id=view.graph.leaf_node_id,
        active_path=_active(view.graph.nodes, view.graph.leaf_node_id),
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


def _active(nodes: tuple[SessionNode, ...], leaf: str | None) -> tuple[str, ...]:
    """The ids from the root to the leaf, as far as they are there."""
    parents = {node.node_id: node.parent_node_id for node in nodes}
    path: list[str] = []
    while leaf in parents and leaf not in path:
        path.append(leaf)
        leaf = parents[leaf]
    return tuple(reversed(path))


async def list_inbox(asked: ApiRequest) -> ApiResponse:
    """List the queued batches of a session, in order."""
    session_id = check_name(asked.path["id"], "session id")
    batches = await asked.store.inbox.list(session_id, namespace=asked.namespace)
    return ApiResponse(value=Batches(items=tuple(batches)), tagged=True)


async def enqueue_batch(asked: ApiRequest) -> ApiResponse:
    """Add a batch to the inbox of a session."""
    new: NewBatch = asked.body
    draft = BatchDraft(
        session_id=check_name(asked.path["id"], "session id"),
        items=tuple(ItemDraft(item.kind, item.payload) for item in new.items),
        delivery=new.delivery,
        slot=new.slot,
        merge_key=new.merge_key,
        source_key=asked.key(),
        available_at=new.available_at,
        batch_id=asked.house.ids.new("batch"),
    )
    batch = await asked.store.inbox.enqueue(draft, namespace=asked.namespace)
    if batch.batch_id == draft.batch_id:
        return ApiResponse(value=batch, status=201)
    must_be_same(batch, draft)
    return ApiResponse(value=batch, headers=REPLAYED)


async def cancel_batch(asked: ApiRequest) -> ApiResponse:
    """Withdraw a queued batch; returns it."""
    session_id = check_name(asked.path["id"], "session id")
    batch_id = check_name(asked.path["batch"], "batch id")
    batch = await asked.store.inbox.cancel(session_id, batch_id, namespace=asked.namespace)
    if batch is not None:
        return ApiResponse(value=batch)
    known = await asked.store.inbox.find(session_id, batch_id, namespace=asked.namespace)
    if known is None:
        msg = f"session {session_id!r} has no batch {batch_id!r}"
        raise NotFound(msg, hint="GET its inbox for what is queued.")
    if known.state is BatchState.CANCELLED:
        return ApiResponse(value=known, headers=REPLAYED)
    why = "a turn has it" if known.state is BatchState.QUEUED else f"it is {known.state}"
    msg = f"batch {batch_id!r} cannot be withdrawn: {why}"
    raise InvalidMove(msg, hint="Delivered input is part of the session. Send a correction instead.")


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/sessions/{id}",
        handle=get_session,
        query=WhichGraph,
        answers=SessionShape,
        statuses=(200, 304),
        errors=(404, 422),
        scope=AccessScope.READ,
        session="id",
    ),
    Endpoint(
        method="GET",
        path="/api/sessions/{id}/inbox",
        handle=list_inbox,
        answers=Batches,
        statuses=(200, 304),
        scope=AccessScope.READ,
        session="id",
    ),
    Endpoint(
        method="POST",
        path="/api/sessions/{id}/inbox",
        handle=enqueue_batch,
        submits=True,
        body=NewBatch,
        answers=InboxBatch,
        statuses=(201, 200),
        keyed=True,
        errors=(409, 415, 422),
        scope=AccessScope.OPERATE,
        session="id",
    ),
    Endpoint(
        method="DELETE",
        path="/api/sessions/{id}/inbox/{batch}",
        handle=cancel_batch,
        answers=InboxBatch,
        errors=(404, 409),
        scope=AccessScope.OPERATE,
        session="id",
    ),
)
