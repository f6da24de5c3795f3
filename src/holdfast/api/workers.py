"""Workers: which run, what each can do, and draining one."""

from __future__ import annotations

from holdfast.api.context import ApiContext
from holdfast.api.job_records import WorkerView
from holdfast.api.operation import operation
from holdfast.api.requests import CommandRequest, Name, PageRequest
from holdfast.api.worker_drain import ask_to_drain
from holdfast.model.access import AccessScope
from holdfast.model.ids import check_name
from holdfast.model.page import Page
from holdfast.model.worker_identity import short_name
from holdfast.model.worker_presence import SeenWorker


class ListWorkers(PageRequest, frozen=True, kw_only=True):
    pass


@operation("GET", "/api/workers", scope=AccessScope.READ, errors=(422,), shared=True)
async def list_workers(api: ApiContext, request: ListWorkers) -> Page[WorkerView]:
    """List workers by name: capabilities, jobs held, last heartbeat."""
    page = await api.store.presences.list(limit=request.limit, cursor=request.cursor)
    return Page(tuple(map(worker_view, page)), page.next)


class DrainWorker(CommandRequest, frozen=True, kw_only=True):
    worker: Name


@operation(
    "POST",
    "/api/workers/{worker}/drain",
    scope=AccessScope.OPERATE,
    errors=(404, 409, 415, 422),
    status=202,
    shared=True,
)
async def drain_worker(api: ApiContext, request: DrainWorker) -> WorkerView:
    """Drain a worker: it reads the request with its next heartbeat and stops as after SIGTERM."""
    check_name(request.worker, "worker name")
    if api.caller is None:
        author, request_id, detail = check_name(request.by, "by"), "", ""
    else:
        author, request_id = api.caller.name, api.caller.request_id
        detail = f"by {request.by or 'nobody named'}"
    worker = await ask_to_drain(
        api.store,
        request.worker,
        who=author,
        why=request.why,
        operation_id=api.operation_id(request.operation_id),
        request_id=request_id,
        detail=detail,
    )
    return worker_view(worker)


def worker_view(worker: SeenWorker) -> WorkerView:
    presence, offer = worker.presence, worker.presence.offer
    return WorkerView(
        worker=presence.worker,
        label=short_name(presence.worker),
        state=worker.state,
        host=presence.host,
        pid=presence.pid,
        identity=presence.identity,
        kinds=offer.kinds,
        sessions=offer.sessions,
        queues=offer.queues,
        capabilities=offer.capabilities,
        concurrency=offer.concurrency,
        holds=worker.holds,
        draining=presence.draining,
        started_at=worker.started_at,
        seen_at=worker.seen_at,
        drains=offer.drains,
        drain_asked_at=worker.drain_asked_at,
    )
