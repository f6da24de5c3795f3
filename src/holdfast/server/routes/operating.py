"""Schedules, queues and namespaces."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from holdfast.errors import NotFound
from holdfast.model.access import AccessScope
from holdfast.model.page import Page
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.schedule import Schedule
from holdfast.server.endpoints import Endpoint
from holdfast.server.hosting_schemas import (
    LimitsOfQueue,
    NamespaceList,
    NewNamespace,
    NewSchedule,
    Plain,
    QueueList,
)
from holdfast.server.idempotency import REPLAYED
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.schemas import Paged
from holdfast.store.ports.namespaces import NamespaceRecord

# ── schedules ─────────────────────────────────────────────────────────────────────────────────────


async def create_schedule(asked: ApiRequest) -> ApiResponse:
    """Create a schedule (cron). Repeating the request changes nothing; the same id with other times is a conflict."""
    new: NewSchedule = asked.body
    known = await _is_known(asked, new.id)
    made = await asked.client.create_schedule(
        new.id,
        new.kind,
        new.cron,
        time_zone=new.time_zone,
        catch_up=new.catch_up,
        input=new.input,
        queue=new.queue,
        priority=new.priority,
    )
    where = {"Location": f"/api/schedules/{quote(made.schedule_id, safe='')}"}
    if known:
        return ApiResponse(value=made, headers=where | REPLAYED)
    return ApiResponse(value=made, status=201, headers=where)


async def _is_known(asked: ApiRequest, schedule_id: str) -> bool:
    try:
        await asked.client.get_schedule(schedule_id)
    except NotFound:
        return False
    return True


async def list_schedules(asked: ApiRequest) -> ApiResponse:
    """List schedules by id."""
    which: Paged = asked.query
    page = await asked.client.list_schedules(limit=which.limit, cursor=which.cursor)
    return ApiResponse(value=page, tagged=True)


async def get_schedule(asked: ApiRequest) -> ApiResponse:
    """Get one schedule: its times, what it starts, and when it fires next."""
    return ApiResponse(value=await asked.client.get_schedule(asked.path["id"]), tagged=True)


async def pause_schedule(asked: ApiRequest) -> ApiResponse:
    """Pause a schedule until it is resumed."""
    return ApiResponse(value=await asked.client.pause_schedule(asked.path["id"]))


async def resume_schedule(asked: ApiRequest) -> ApiResponse:
    """Resume a schedule from its next time on; times during the pause are skipped."""
    return ApiResponse(value=await asked.client.resume_schedule(asked.path["id"]))


async def remove_schedule(asked: ApiRequest) -> ApiResponse:
    """Remove a schedule; returns it. Its jobs stay."""
    return ApiResponse(value=await asked.client.remove_schedule(asked.path["id"]))


# ── queues ────────────────────────────────────────────────────────────────────────────────────────


async def list_queues(asked: ApiRequest) -> ApiResponse:
    """List the queues that have limits, by name."""
    return ApiResponse(value=QueueList(items=await asked.client.list_queues()), tagged=True)


async def limit_queue(asked: ApiRequest) -> ApiResponse:
    """Set the limits of a queue. Without limits it accepts every job."""
    limits: LimitsOfQueue = asked.body
    return ApiResponse(
        value=await asked.client.limit_queue(
            asked.path["queue"], depth_max=limits.depth_max, age_max_us=limits.age_max_us
        )
    )


async def unlimit_queue(asked: ApiRequest) -> ApiResponse:
    """Remove the limits of a queue."""
    return ApiResponse(value=await asked.client.limit_queue(asked.path["queue"]))


# ── namespaces ────────────────────────────────────────────────────────────────────────────────────


async def list_namespaces(asked: ApiRequest) -> ApiResponse:
    """List namespaces by name."""
    return ApiResponse(value=NamespaceList(items=await asked.client.list_namespaces()), tagged=True)


async def create_namespace(asked: ApiRequest) -> ApiResponse:
    """Create a namespace. Repeating the request changes nothing."""
    new: NewNamespace = asked.body
    known = {one.namespace for one in await asked.client.list_namespaces()}
    made = await asked.client.create_namespace(new.namespace)
    if made.namespace in known:
        return ApiResponse(value=made, headers=REPLAYED)
    return ApiResponse(value=made, status=201)


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/api/schedules",
        handle=create_schedule,
        body=NewSchedule,
        answers=Schedule,
        statuses=(201, 200),
        keyed=True,
        errors=(409, 415, 422),
        scope=AccessScope.OPERATE,
    ),
    Endpoint(
        method="GET",
        path="/api/schedules",
        handle=list_schedules,
        query=Paged,
        answers=Page[Schedule],
        statuses=(200, 304),
        errors=(422,),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="GET",
        path="/api/schedules/{id}",
        handle=get_schedule,
        answers=Schedule,
        statuses=(200, 304),
        errors=(404,),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="DELETE",
        path="/api/schedules/{id}",
        handle=remove_schedule,
        answers=Schedule,
        errors=(404,),
        scope=AccessScope.OPERATE,
    ),
    Endpoint(
        method="POST",
        path="/api/schedules/{id}/pause",
        handle=pause_schedule,
        body=Plain,
        answers=Schedule,
        keyed=True,
        errors=(404, 415),
        scope=AccessScope.OPERATE,
    ),
    Endpoint(
        method="POST",
        path="/api/schedules/{id}/resume",
        handle=resume_schedule,
        body=Plain,
        answers=Schedule,
        keyed=True,
        errors=(404, 415),
        scope=AccessScope.OPERATE,
    ),
    Endpoint(
        method="GET",
        path="/api/queues",
        handle=list_queues,
        answers=QueueList,
        statuses=(200, 304),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="PUT",
        path="/api/queues/{queue}",
        handle=limit_queue,
        body=LimitsOfQueue,
        answers=QueueLimits,
        errors=(415, 422),
        scope=AccessScope.ADMIN,
    ),
    Endpoint(
        method="DELETE",
        path="/api/queues/{queue}",
        handle=unlimit_queue,
        answers=QueueLimits,
        errors=(422,),
        scope=AccessScope.ADMIN,
    ),
    Endpoint(
        method="GET",
        path="/api/namespaces",
        handle=list_namespaces,
        answers=NamespaceList,
        statuses=(200, 304),
        scope=AccessScope.ADMIN,
        shared=True,
    ),
    Endpoint(
        method="POST",
        path="/api/namespaces",
        handle=create_namespace,
        body=NewNamespace,
        answers=NamespaceRecord,
        statuses=(201, 200),
        keyed=True,
        errors=(415, 422),
        scope=AccessScope.ADMIN,
        shared=True,
    ),
)
