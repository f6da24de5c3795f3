"""Schedules, queues, namespaces and numbers, over an open store."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.client.hosting import EmbeddedHosting
from holdfast.errors import Conflict, InvalidPayload, InvalidSetting, NotFound
from holdfast.model.ids import check_name
from holdfast.model.jobs import DEFAULT_QUEUE
from holdfast.model.limits import PRIORITY_DEFAULT, ROWS_PER_PAGE_DEFAULT
from holdfast.model.page import Page
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.schedule import CatchUp, Schedule, check_schedule
from holdfast.store.ports.namespaces import NamespaceRecord


class EmbeddedOperating(EmbeddedHosting):
    """See `holdfast.client.operating_protocol.Operating`."""

    # ── schedules ─────────────────────────────────────────────────────────────────────────────────

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
        from holdfast.engine.cron import after

        try:
            next_at = after(cron, time_zone)(self._store.clock.calendar_us())
        except InvalidSetting as error:
            raise InvalidPayload(str(error), hint=error.hint) from None
        new = check_schedule(
            Schedule(
                schedule_id=schedule_id,
                kind=kind,
                cron=cron,
                next_at=next_at,
                time_zone=time_zone,
                catch_up=catch_up,
                input=input,
                namespace=self._namespace,
                queue=queue,
                priority=priority,
            )
        )
        known = await self._find_schedule(schedule_id)
        if known is None:
            return await self._store.schedules.put(new)
        if not _is_same(known, new):
            msg = f"schedule {schedule_id!r} exists with other settings"
            raise Conflict(msg, hint="Remove it first, or give the new one an id of its own.")
        return known

    async def _find_schedule(self, schedule_id: str) -> Schedule | None:
        try:
            return await self.get_schedule(schedule_id)
        except NotFound:
            return None

    async def get_schedule(self, schedule_id: str) -> Schedule:
        return await self._store.schedules.get(
            check_name(schedule_id, "schedule id"), namespace=self._namespace
        )

    async def list_schedules(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[Schedule]:
        return await self._store.schedules.list(namespace=self._namespace, limit=limit, cursor=cursor)

    async def pause_schedule(self, schedule_id: str) -> Schedule:
        return await self._store.schedules.pause(
            check_name(schedule_id, "schedule id"), namespace=self._namespace
        )

    async def resume_schedule(self, schedule_id: str) -> Schedule:
        from holdfast.engine.schedules import resume

        check_name(schedule_id, "schedule id")
        return await resume(self._store, schedule_id, namespace=self._namespace)

    async def remove_schedule(self, schedule_id: str) -> Schedule:
        known = await self.get_schedule(schedule_id)
        if not await self._store.schedules.remove(schedule_id, namespace=self._namespace):
            msg = f"there is no schedule {schedule_id!r}"
            raise NotFound(msg, hint="`holdfast schedule list` lists them.")
        return known

    # ── queues ────────────────────────────────────────────────────────────────────────────────────

    async def limit_queue(
        self, queue: str, *, depth_max: int | None = None, age_max_us: int | None = None
    ) -> QueueLimits:
        limits = QueueLimits(
            queue=queue, namespace=self._namespace, depth_max=depth_max, age_max_us=age_max_us
        )
        await self._store.queues.limit(limits)
        return limits

    async def list_queues(self) -> tuple[QueueLimits, ...]:
        return tuple(await self._store.queues.list(namespace=self._namespace))

    # ── namespaces and numbers ────────────────────────────────────────────────────────────────────

    async def create_namespace(self, namespace: str) -> NamespaceRecord:
        await self._store.namespaces.create(namespace)
        return next(one for one in await self.list_namespaces() if one.namespace == namespace)

    async def list_namespaces(self) -> tuple[NamespaceRecord, ...]:
        return tuple(await self._store.namespaces.list())


def _is_same(known: Schedule, new: Schedule) -> bool:
    """Whether they ask for the same; where a schedule stands, and what its code added to it, is its own."""
    own = {
        name: getattr(known, name) for name in ("next_at", "paused", "created_at", "budget", "python_version")
    }
    return msgspec.structs.replace(new, **own) == known
