"""Schedules, queues, namespaces and numbers, over HTTP."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.client.paths import path
from holdfast.client.records import Stats
from holdfast.client.remote_hosting import RemoteHosting
from holdfast.model.jobs import DEFAULT_QUEUE
from holdfast.model.limits import PRIORITY_DEFAULT, ROWS_PER_PAGE_DEFAULT
from holdfast.model.page import Page
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.schedule import CatchUp, Schedule
from holdfast.store.ports.namespaces import NamespaceRecord


class _Queues(msgspec.Struct, frozen=True):
    items: tuple[QueueLimits, ...]


class _Namespaces(msgspec.Struct, frozen=True):
    items: tuple[NamespaceRecord, ...]


class RemoteOperating(RemoteHosting):
    """See `holdfast.client.operating_protocol.Operating`."""

    async def create_schedule(
        self,
        schedule_id: str,
        kind: str,
        cron: str,
        *,
        time_zone: str = "UTC",
        catch_up: CatchUp = CatchUp.SKIP,
        input: Any = None,  # noqa: A002 -- the word for it everywhere else
        queue: str = DEFAULT_QUEUE,
        priority: int = PRIORITY_DEFAULT,
    ) -> Schedule:
        body = {
            "id": schedule_id,
            "kind": kind,
            "cron": cron,
            "time_zone": time_zone,
            "catch_up": catch_up,
            "input": input,
            "queue": queue,
            "priority": priority,
        }
        return await self._post("/api/schedules", body, Schedule)

    async def get_schedule(self, schedule_id: str) -> Schedule:
        return await self._get(path("api", "schedules", schedule_id), Schedule)

    async def list_schedules(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[Schedule]:
        return await self._get("/api/schedules", Page[Schedule], limit=limit, cursor=cursor)

    async def pause_schedule(self, schedule_id: str) -> Schedule:
        return await self._post(path("api", "schedules", schedule_id, "pause"), {}, Schedule)

    async def resume_schedule(self, schedule_id: str) -> Schedule:
        return await self._post(path("api", "schedules", schedule_id, "resume"), {}, Schedule)

    async def remove_schedule(self, schedule_id: str) -> Schedule:
        return await self._delete(path("api", "schedules", schedule_id), Schedule)

    async def limit_queue(
        self, queue: str, *, depth_max: int | None = None, age_max_us: int | None = None
    ) -> QueueLimits:
        body = {"depth_max": depth_max, "age_max_us": age_max_us}
        return await self._put(path("api", "queues", queue), body, QueueLimits)

    async def list_queues(self) -> tuple[QueueLimits, ...]:
        return (await self._get("/api/queues", _Queues)).items

    async def create_namespace(self, namespace: str) -> NamespaceRecord:
        return await self._post("/api/namespaces", {"namespace": namespace}, NamespaceRecord)

    async def list_namespaces(self) -> tuple[NamespaceRecord, ...]:
        return (await self._get("/api/namespaces", _Namespaces)).items

    async def stats(self) -> Stats:
        return await self._get("/api/stats", Stats)
