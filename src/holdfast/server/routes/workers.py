"""Workers: who drives jobs, what each can do, and the word that one shall drain."""

from __future__ import annotations

from typing import Final

from holdfast.client.hosting import worker_view
from holdfast.client.records import WorkerView
from holdfast.client.worker_drain import ask_to_drain
from holdfast.model.access import AccessScope
from holdfast.model.ids import check_name
from holdfast.model.page import Page
from holdfast.server.endpoints import Endpoint
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.schemas import Paged, Word


async def list_workers(asked: ApiRequest) -> ApiResponse:
    """List workers by name: capabilities, jobs held, last heartbeat."""
    which: Paged = asked.query
    return ApiResponse(
        value=await asked.client.list_workers(limit=which.limit, cursor=which.cursor), tagged=True
    )


async def drain_worker(asked: ApiRequest) -> ApiResponse:
    """Drain a worker: it reads the request with its next heartbeat and stops as after SIGTERM."""
    word: Word = asked.body
    seen = await ask_to_drain(
        asked.store,
        check_name(asked.path["id"], "worker name"),
        who=asked.principal.name,
        why=word.why,
        operation_id=asked.key(word.operation_id) or asked.request_id,
        request_id=asked.request_id,
        detail=f"by {word.by or 'unnamed'}",
    )
    return ApiResponse(value=worker_view(seen), status=202)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/workers",
        handle=list_workers,
        query=Paged,
        answers=Page[WorkerView],
        statuses=(200, 304),
        errors=(422,),
        scope=AccessScope.READ,
        shared=True,
    ),
    Endpoint(
        method="POST",
        path="/api/workers/{id}/drain",
        handle=drain_worker,
        body=Word,
        answers=WorkerView,
        statuses=(202,),
        keyed=True,
        errors=(404, 409, 415, 422),
        scope=AccessScope.OPERATE,
        shared=True,
    ),
)
