"""Schedules in motion: standing, fired when their instant comes, paused and resumed.

Any process with the store may look for what is due. It decides by the model, and fires in one transaction that is
guarded by the instant it has seen: of two that fire one does, and the other has nothing to do.

Schedules go by wall time, which people set. An instant makes one job, whatever the clock does: the job's request key
has the instant. After a step back a schedule would wait for an instant that it was moved to while the clock was
ahead; so schedules whose cron expression has an earlier one are moved back to it (`rewind`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from holdfast.errors import Busy, InvalidSetting
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.schedule import LATE_US, Schedule, decide, job_of
from holdfast.model.time import to_iso
from holdfast.store.contract import Store
from holdfast.store.store_clock import TOLERANCE_US

AT_ONCE: Final = 100
"""So many firings in one look: a long absence must not keep a process from its other rounds."""

log = logging.getLogger("holdfast.schedules")


async def stand(store: Store, schedules: Sequence[Schedule]) -> list[Schedule]:
    """The schedules stand; new ones, and those with new times, from their next instant after now."""
    now = store.clock.calendar_us()
    return [
        await store.schedules.put(msgspec.structs.replace(one, next_at=_times(one)(now))) for one in schedules
    ]


async def resume(store: Store, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
    """The schedule fires again, from its next instant on. What came during the pause was not missed, it was not
    wanted."""
    one = await store.schedules.get(schedule_id, namespace=namespace)
    next_at = _times(one)(store.clock.calendar_us())
    return await store.schedules.resume(schedule_id, next_at, namespace=namespace)


async def fire_due(store: Store) -> list[str]:
    """What was due has been fired, as far as one look goes; the new jobs."""
    made: list[str] = []
    put_off: set[tuple[str, str]] = set()
    for _ in range(AT_ONCE):
        found = await store.schedules.due(limit=AT_ONCE + len(put_off))
        due = [one for one in found if (one.namespace, one.schedule_id) not in put_off]
        if not due:
            break
        for one in due[: AT_ONCE - len(made)]:
            try:
                job_id = await _fire(store, one)
            except (Busy, InvalidSetting) as error:
                # For the next look: the queue has room then, or somebody has put the schedule right.
                log.warning("schedule %s did not fire: %s", one.schedule_id, error)
                put_off.add((one.namespace, one.schedule_id))
                continue
            made += [] if job_id is None else [job_id]
        if len(made) >= AT_ONCE:
            break
    return made


class ScheduleRewind:
    """Moves schedules back that stand behind an instant which is still to come: when the process begins, and after
    the wall clock was set."""

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
    """No schedule stands behind its next instant after now."""
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
        is_behind = _times(schedule)(now) < schedule.next_at
        next_at = _times(schedule)(now - LATE_US)  # what came since the step is on time
    except InvalidSetting:  # it is named when it is due
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
    """The job that this process made for the schedule's instant; None: none was to be made, or somebody was first."""
    # The store says that it is due, and this process may not know yet that the clock was set.
    now = max(store.clock.calendar_us(), schedule.next_at)
    decision = decide(schedule, now, _times(schedule))
    if decision is None:
        return None
    job = None if decision.fire is None else job_of(schedule, decision.fire)
    submitted = await store.schedules.fire(schedule, job, decision.next_at)
    if submitted is None or not submitted.created:
        return None
    log.info("schedule %s made job %s", schedule.schedule_id, submitted.job_id)
    return submitted.job_id


def _times(schedule: Schedule) -> Callable[[int], int]:
    """For any instant, the schedule's next one after it."""
    from holdfast.engine.cron import after  # most programs have no schedule

    return after(schedule.cron, schedule.time_zone)
