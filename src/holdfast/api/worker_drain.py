"""Asking a worker to drain: whose word it was is a line of the audit log, since no journal is about workers."""

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
    """The worker hears with its next beat that it shall drain."""
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
