"""Worker drain: requests a worker to drain. The audit log records who requested it, since no journal is about
workers."""

from __future__ import annotations

from holdfast.api.command_checks import reason
from holdfast.model.audit import ActDraft, act_id
from holdfast.model.worker_presence import SeenWorker
from holdfast.store.contract import Store


async def ask_to_drain(
    store: Store,
    worker: str,
    *,
    who: str,
    why: str,
    operation_id: str,
    request_id: str = "",
    detail: str = "",
) -> SeenWorker:
    """Stores the request; the worker reads it with its next heartbeat and drains."""
    act = ActDraft(
        act_id=act_id("worker.drain", worker, operation_id),
        what="worker.drain",
        who=who,
        object=worker,
        reason=reason(why),
        request_id=request_id,
        detail=detail,
    )
    return await store.presences.ask_to_drain(worker, act)
