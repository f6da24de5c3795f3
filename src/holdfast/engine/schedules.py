"""Schedules in motion: standing, fired when their instant comes, paused and resumed.

Any process with the store may look for what is due. It decides by the model, and fires in one transaction that is
guarded by the instant it has seen: of two that fire one does, and the other has nothing to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from holdfast.errors import Busy, InvalidSetting
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.schedule import Schedule, decide, job_of
from holdfast.store.clock import Clock
from holdfast.store.contract import Store

AT_ONCE: Final = 100
"""So many firings in one look: a long absence must not keep a process from its other rounds."""

log = logging.getLogger("holdfast.schedules")


async def stand(store: Store, clock: Clock, schedules: Sequence[Schedule]) -> list[Schedule]:
    """The schedules stand; new ones, and those with new times, from their next instant after now."""
    now = clock.wall_us()
    return [
        await store.schedules.put(msgspec.structs.replace(one, next_at=_times(one)(now))) for one in schedules
    ]


async def resume(
    store: Store, clock: Clock, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE
) -> Schedule:
    """The schedule fires again, from its next instant on. What came during the pause was not missed, it was not
    wanted."""
    one = await store.schedules.get(schedule_id, namespace=namespace)
    next_at = _times(one)(clock.wall_us())
    return await store.schedules.resume(schedule_id, next_at, namespace=namespace)


async def fire_due(store: Store, clock: Clock) -> list[str]:
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
                job_id = await _fire(store, clock, one)
            except (Busy, InvalidSetting) as error:
                # For the next look: the queue has room then, or somebody has put the schedule right.
                log.warning("schedule %s did not fire: %s", one.schedule_id, error)
                put_off.add((one.namespace, one.schedule_id))
                continue
            made += [] if job_id is None else [job_id]
        if len(made) >= AT_ONCE:
            break
    return made


async def _fire(store: Store, clock: Clock, schedule: Schedule) -> str | None:
    """The job that this process made for the schedule's instant; None: none was to be made, or somebody was first."""
    now = max(
        clock.wall_us(), schedule.next_at
    )  # the store's clock says it is due, and this one may be behind
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
