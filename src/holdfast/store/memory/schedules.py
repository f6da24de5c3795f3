"""Schedules in memory."""

from __future__ import annotations

import msgspec

from holdfast.errors import KeyReused, NotFound
from holdfast.model.jobs import DEFAULT_NAMESPACE, JobDraft, SubmittedJob, check_draft
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.model.schedule import Schedule, check_schedule, same_times
from holdfast.store.memory.jobs import submit
from holdfast.store.memory.state import MemoryState, MemoryTransaction, pack_struct, unpack_struct

_CURSOR = "schedules"


class MemorySchedules:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def put(self, schedule: Schedule) -> Schedule:
        new = pack_struct(check_schedule(schedule), "input")
        with self._state.transaction() as work:
            work.need_namespace(schedule.namespace)
            before = work.tables.schedules.get((schedule.namespace, schedule.schedule_id))
            if before is None:
                new = msgspec.structs.replace(new, created_at=work.wall)
            else:
                at = before.next_at if same_times(before, new) else new.next_at
                new = msgspec.structs.replace(
                    new, next_at=at, paused=before.paused, created_at=before.created_at
                )
            work.tables.schedules[schedule.namespace, schedule.schedule_id] = new
            return unpack_struct(new, "input")

    async def get(self, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
        return unpack_struct(_get_schedule(self._state.tables.schedules, schedule_id, namespace), "input")

    async def list(
        self, *, namespace: str = DEFAULT_NAMESPACE, limit: int = 100, cursor: str | None = None
    ) -> Page[Schedule]:
        last = "" if cursor is None else str(decode_cursor(_CURSOR, cursor, keys=1)[0])
        found = sorted(
            (
                schedule
                for schedule in self._state.tables.schedules.values()
                if schedule.namespace == namespace
            ),
            key=lambda schedule: schedule.schedule_id,
        )
        found = [schedule for schedule in found if schedule.schedule_id > last]
        page = tuple(unpack_struct(schedule, "input") for schedule in found[:limit])
        more = encode_cursor(_CURSOR, page[-1].schedule_id) if page and len(found) > limit else None
        return Page(page, more)

    async def due(self, *, limit: int = 100) -> tuple[Schedule, ...]:
        now = self._state.clock.calendar_us()
        due = [
            schedule
            for schedule in self._state.tables.schedules.values()
            if not schedule.paused and schedule.next_at <= now
        ]
        due.sort(key=lambda schedule: (schedule.next_at, schedule.namespace, schedule.schedule_id))
        return tuple(unpack_struct(schedule, "input") for schedule in due[:limit])

    async def fire(self, schedule: Schedule, job: JobDraft | None, next_at: int) -> SubmittedJob | None:
        place = (schedule.namespace, schedule.schedule_id)
        if job is not None:
            check_draft(job)
        with self._state.transaction() as work:
            stored = work.tables.schedules.get(place)
            if stored is None or stored.paused or unpack_struct(stored, "input") != schedule:
                return None
            work.tables.schedules[place] = msgspec.structs.replace(stored, next_at=next_at)
            return None if job is None else _submit(work, job)

    async def pause(self, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
        with self._state.transaction() as work:
            stored = _get_schedule(work.tables.schedules, schedule_id, namespace)
            paused = msgspec.structs.replace(stored, paused=True)
            work.tables.schedules[namespace, schedule_id] = paused
            return unpack_struct(paused, "input")

    async def resume(self, schedule_id: str, next_at: int, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
        with self._state.transaction() as work:
            stored = _get_schedule(work.tables.schedules, schedule_id, namespace)
            if stored.paused:
                stored = msgspec.structs.replace(stored, paused=False, next_at=next_at)
            work.tables.schedules[namespace, schedule_id] = stored
            return unpack_struct(stored, "input")

    async def remove(self, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        with self._state.transaction() as work:
            return work.tables.schedules.pop((namespace, schedule_id), None) is not None


def _get_schedule(schedules: dict[tuple[str, str], Schedule], schedule_id: str, namespace: str) -> Schedule:
    if (namespace, schedule_id) not in schedules:
        raise NotFound(f"there is no schedule {schedule_id!r}", hint="Put one there first.")
    return schedules[namespace, schedule_id]


def _submit(work: MemoryTransaction, job: JobDraft) -> SubmittedJob:
    """Submit the job of this due time. A job of another request under the same key is left as it is."""
    try:
        return submit(work, job, admitting=True)
    except KeyReused:
        assert job.request_key is not None, "a key that is reused is a key"
        return SubmittedJob(work.tables.requests[job.namespace, job.request_key], created=False)
