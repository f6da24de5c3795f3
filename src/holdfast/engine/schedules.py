"""Schedules: registered, fired when they are due, paused and resumed.

Any process with the store may look for due schedules. It decides by the model, and fires in one transaction that is
guarded by the instant it has read: if two processes fire, one of them does, and the other has nothing to do.

Schedules follow wall time, which people set. An instant makes one job, whatever the clock does: the job's request key
contains the instant. After the clock is set back, a schedule would wait for an instant that it was moved to while the
clock was ahead; so schedules whose cron expression has an earlier one are moved back to it (`rewind`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from holdfast.errors import Busy, InvalidSetting
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.schedule import LATE_US, Schedule, decide, make_job
from holdfast.model.time import to_iso
from holdfast.store.contract import Store
from holdfast.store.store_clock import TOLERANCE_US

AT_ONCE: Final = 100
"""Firings per look: a long absence must not keep a process from its other duties."""

log = logging.getLogger("holdfast.schedules")


async def register_schedules(store: Store, schedules: Sequence[Schedule]) -> list[Schedule]:
    """Registers the schedules; new ones, and those with new times, start at their next instant after now."""
    now = store.clock.calendar_us()
    return [
        await store.schedules.put(msgspec.structs.replace(schedule, next_at=_compile_times(schedule)(now)))
        for schedule in schedules
    ]


async def resume(store: Store, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
    """Resumes the schedule from its next instant on. Instants during the pause do not count as missed."""
    schedule = await store.schedules.get(schedule_id, namespace=namespace)
    next_at = _compile_times(schedule)(store.clock.calendar_us())
    return await store.schedules.resume(schedule_id, next_at, namespace=namespace)


async def fire_due(store: Store) -> list[str]:
    """Fires the due schedules, up to `AT_ONCE` of them. Returns the new jobs."""
    job_ids: list[str] = []
    put_off: set[tuple[str, str]] = set()
    for _ in range(AT_ONCE):
        candidates = await store.schedules.due(limit=AT_ONCE + len(put_off))
        due = [
            schedule for schedule in candidates if (schedule.namespace, schedule.schedule_id) not in put_off
        ]
        if not due:
            break
        for schedule in due[: AT_ONCE - len(job_ids)]:
            try:
                job_id = await _fire(store, schedule)
            except (Busy, InvalidSetting) as error:
                # For the next look: by then the queue may have room, or an operator has corrected the schedule.
                log.warning("schedule %s did not fire: %s", schedule.schedule_id, error)
                put_off.add((schedule.namespace, schedule.schedule_id))
                continue
            job_ids += [] if job_id is None else [job_id]
        if len(job_ids) >= AT_ONCE:
            break
    return job_ids


class ScheduleRewind:
    """Moves schedules back whose next instant is too late: when the process starts, and after the wall
    clock was set."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shift_us: int | None = None

    async def go(self) -> None:
        clock = self._store.clock
        shift_us = clock.calendar_us() - clock.wall_us()
        if self._shift_us is None or abs(shift_us - self._shift_us) > TOLERANCE_US:
            await rewind(self._store)
            self._shift_us = shift_us


async def rewind(store: Store) -> None:
    """Moves schedules back whose `next_at` is later than their next instant after now."""
    for record in await store.namespaces.list():
        cursor: str | None = None
        while True:
            page = await store.schedules.list(namespace=record.namespace, cursor=cursor)
            for schedule in page.items:
                await _rewind(store, schedule)
            cursor = page.next
            if cursor is None:
                break


async def _rewind(store: Store, schedule: Schedule) -> None:
    now = store.clock.calendar_us()
    try:
        is_behind = _compile_times(schedule)(now) < schedule.next_at
        next_at = _compile_times(schedule)(now - LATE_US)  # instants since the clock was set are on time
    except InvalidSetting:  # it is logged when it is due
        return
    if is_behind and not schedule.paused:
        log.warning(
            "the wall clock was set back: schedule %s fires next at %s, not at %s",
            schedule.schedule_id,
            to_iso(next_at),
            to_iso(schedule.next_at),
        )
        await store.schedules.fire(schedule, None, next_at)


async def _fire(store: Store, schedule: Schedule) -> str | None:
    """Makes the job for the schedule's instant and returns it; None: none was to be made, or another process was
    first."""
    # The store says that it is due; this process may not know yet that the clock was set.
    now = max(store.clock.calendar_us(), schedule.next_at)
    decision = decide(schedule, now, _compile_times(schedule))
    if decision is None:
        return None
    job = None if decision.fire is None else make_job(schedule, decision.fire)
    submitted = await store.schedules.fire(schedule, job, decision.next_at)
    if submitted is None or not submitted.created:
        return None
    log.info("schedule %s made job %s", schedule.schedule_id, submitted.job_id)
    return submitted.job_id


def _compile_times(schedule: Schedule) -> Callable[[int], int]:
    """A function that computes the schedule's next instant after another one."""
    from holdfast.engine.cron import compile_cron  # most programs have no schedule

    return compile_cron(schedule.cron, schedule.time_zone)
