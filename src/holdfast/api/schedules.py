"""Schedules: jobs that start by cron."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.api.context import ApiContext
from holdfast.api.operation import Created, operation
from holdfast.api.requests import Name, OperationRequest, PageRequest, Priority
from holdfast.errors import Conflict, InvalidPayload, InvalidSetting, NotFound
from holdfast.model.access import AccessScope
from holdfast.model.ids import check_name
from holdfast.model.jobs import DEFAULT_QUEUE
from holdfast.model.limits import PRIORITY_DEFAULT
from holdfast.model.page import Page
from holdfast.model.schedule import CatchUp, Schedule, check_schedule


class CreateSchedule(OperationRequest, frozen=True, kw_only=True, rename={"schedule_id": "id"}):
    """A schedule: a cron expression (minute, hour, day, month, weekday) in a time zone. Its id makes it idempotent."""

    schedule_id: Name
    kind: Name
    cron: Name
    time_zone: Name = "UTC"
    catch_up: CatchUp = CatchUp.SKIP
    input: Any = None
    queue: Name = DEFAULT_QUEUE
    priority: Priority = PRIORITY_DEFAULT


@operation(
    "POST",
    "/api/schedules",
    scope=AccessScope.OPERATE,
    errors=(409, 415, 422),
    location="/api/schedules/{schedule_id}",
)
async def create_schedule(api: ApiContext, request: CreateSchedule) -> Created[Schedule]:
    """Create a schedule (cron). Repeating the request changes nothing; the same id with other times is a conflict."""
    from holdfast.engine.cron import compile_cron

    try:
        next_at = compile_cron(request.cron, request.time_zone)(api.store.clock.calendar_us())
    except InvalidSetting as error:
        raise InvalidPayload(str(error), hint=error.hint) from None
    new = check_schedule(
        Schedule(
            schedule_id=request.schedule_id,
            kind=request.kind,
            cron=request.cron,
            next_at=next_at,
            time_zone=request.time_zone,
            catch_up=request.catch_up,
            input=request.input,
            namespace=api.namespace,
            queue=request.queue,
            priority=request.priority,
        )
    )
    try:
        existing = await api.store.schedules.get(
            check_name(new.schedule_id, "schedule id"), namespace=api.namespace
        )
    except NotFound:
        return Created(await api.store.schedules.put(new), is_new=True)
    if not _is_same(existing, new):
        msg = f"the schedule {request.schedule_id!r} exists with other settings"
        raise Conflict(msg, hint="Remove it first, or give the new one an id of its own.")
    return Created(existing, is_new=False)


def _is_same(existing: Schedule, new: Schedule) -> bool:
    """Whether both have the same settings; the progress of a schedule, and what its code added to it, is not
    compared."""
    own = {
        name: getattr(existing, name)
        for name in ("next_at", "paused", "created_at", "budget", "python_version")
    }
    return msgspec.structs.replace(new, **own) == existing


class ListSchedules(PageRequest, frozen=True, kw_only=True):
    pass


@operation("GET", "/api/schedules", scope=AccessScope.READ, errors=(422,))
async def list_schedules(api: ApiContext, request: ListSchedules) -> Page[Schedule]:
    """List schedules by id."""
    return await api.store.schedules.list(namespace=api.namespace, limit=request.limit, cursor=request.cursor)


class NamedSchedule(OperationRequest, frozen=True, kw_only=True):
    """One schedule, by its id."""

    schedule_id: Name


@operation("GET", "/api/schedules/{schedule_id}", scope=AccessScope.READ, errors=(404,))
async def get_schedule(api: ApiContext, request: NamedSchedule) -> Schedule:
    """Get one schedule: its times, what it starts, and when it fires next."""
    schedule_id = check_name(request.schedule_id, "schedule id")
    return await api.store.schedules.get(schedule_id, namespace=api.namespace)


@operation("POST", "/api/schedules/{schedule_id}/pause", scope=AccessScope.OPERATE, errors=(404, 415))
async def pause_schedule(api: ApiContext, request: NamedSchedule) -> Schedule:
    """Pause a schedule until it is resumed."""
    schedule_id = check_name(request.schedule_id, "schedule id")
    return await api.store.schedules.pause(schedule_id, namespace=api.namespace)


@operation("POST", "/api/schedules/{schedule_id}/resume", scope=AccessScope.OPERATE, errors=(404, 415))
async def resume_schedule(api: ApiContext, request: NamedSchedule) -> Schedule:
    """Resume a schedule from its next time on; times during the pause are skipped."""
    from holdfast.engine.schedules import resume

    check_name(request.schedule_id, "schedule id")
    return await resume(api.store, request.schedule_id, namespace=api.namespace)


@operation("DELETE", "/api/schedules/{schedule_id}", scope=AccessScope.OPERATE, errors=(404,))
async def remove_schedule(api: ApiContext, request: NamedSchedule) -> Schedule:
    """Remove a schedule; returns it. Its jobs stay."""
    existing = await get_schedule(api, request)
    if not await api.store.schedules.remove(request.schedule_id, namespace=api.namespace):
        msg = f"there is no schedule {request.schedule_id!r}"
        raise NotFound(msg, hint="`holdfast schedule list` lists schedules.")
    return existing
