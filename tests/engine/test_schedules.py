"""Cron in a time zone, and schedules fired by whoever looks first."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest

from holdfast.engine import cron
from holdfast.engine.schedules import AT_ONCE, fire_due, register_schedules, resume
from holdfast.errors import InvalidSetting
from holdfast.model.jobs import JobFilter
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.schedule import LATE_US, CatchUp, Schedule
from holdfast.model.time import HOUR, MINUTE, from_iso, to_iso
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

# ── when the next instant is ──────────────────────────────────────────────────────────────────────


def instants(expression: str, zone: str, after: str, count: int) -> list[str]:
    """So many instants after this one, to the minute."""
    found, at = [], from_iso(after)
    for _ in range(count):
        at = cron.compile_cron(expression, zone)(at)
        found.append(to_iso(at)[:16])
    return found


def test_a_time_of_day_is_the_zones() -> None:
    assert instants("0 7 * * 1-5", "Europe/Berlin", "2026-11-13T12:00:00Z", 2) == [
        "2026-11-16T06:00",
        "2026-11-17T06:00",
    ]
    assert instants("0 7 * * *", "Europe/Berlin", "2026-07-01T05:00:00Z", 1) == ["2026-07-02T05:00"]
    assert instants("0 7 * * *", "UTC", "2026-07-01T06:59:59.999999Z", 1) == ["2026-07-01T07:00"]


def test_a_time_that_spring_leaves_out_comes_at_the_end_of_the_gap() -> None:
    """Berlin goes from 02:00 to 03:00 on 29 March 2026, which is 01:00 UTC."""
    assert instants("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3) == [
        "2026-03-28T01:30",
        "2026-03-29T01:00",
        "2026-03-30T00:30",
    ]
    assert instants("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2) == [
        "2026-03-29T01:00",
        "2026-03-30T00:00",
    ], "two that fall together are one"


def test_a_time_that_autumn_repeats_comes_once() -> None:
    """Berlin goes from 03:00 back to 02:00 on 25 October 2026, which is 01:00 UTC."""
    assert instants("30 2 * * *", "Europe/Berlin", "2026-10-23T12:00:00Z", 3) == [
        "2026-10-24T00:30",
        "2026-10-25T00:30",
        "2026-10-26T01:30",
    ]
    again = instants("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1)
    assert again == ["2026-10-26T01:30"], "asked in the second of the two hours"


def test_every_hour_is_every_hour_that_passes() -> None:
    assert instants("0 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 2) == [
        "2026-03-29T01:00",
        "2026-03-29T02:00",
    ]
    assert instants("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 3) == [
        "2026-10-25T00:00",
        "2026-10-25T01:00",
        "2026-10-25T02:00",
    ]


@pytest.mark.parametrize(
    "expression, zone, said",
    [
        ("often", "UTC", "it has 1 fields"),
        ("* * * * * *", "UTC", "it has 6 fields"),
        ("61 * * * *", "UTC", "Bad minute"),
        ("0 0 30 2 *", "UTC", "Bad day-of-month"),
        ("0 0 * * *", "Europe/Atlantis", "no time zone 'Europe/Atlantis'"),
        ("0 0 * * *", "../etc/passwd", "no time zone"),
    ],
)
def test_what_is_no_schedule_is_refused(expression: str, zone: str, said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        cron.compile_cron(expression, zone)(0)


# ── firing ────────────────────────────────────────────────────────────────────────────────────────

on_every_store = pytest.mark.parametrize("backend", STORES, indirect=True)


async def minutely(shop: Shop, catch_up: CatchUp = CatchUp.SKIP, schedule_id: str = "s") -> Schedule:
    one = Schedule(schedule_id=schedule_id, kind="k", cron="* * * * *", next_at=0, catch_up=catch_up)
    (stood,) = await register_schedules(shop.store, [one])
    return stood


async def keys(shop: Shop) -> list[str]:
    found = await shop.store.jobs.list(JobFilter(), limit=1000)
    return sorted(record.request_key or "" for record in found)


@on_every_store
async def test_a_schedule_fires_at_each_of_its_instants(backend: Backend) -> None:
    async with opened(backend) as shop:
        one = await minutely(shop)
        assert shop.clock.wall_us() < one.next_at <= shop.clock.wall_us() + MINUTE
        assert await fire_due(shop.store) == []
        shop.clock.advance(one.next_at - shop.clock.wall_us())
        (made,) = await fire_due(shop.store)
        assert (await shop.store.jobs.get(made)).request_key == f"s@{to_iso(one.next_at)}"
        assert await fire_due(shop.store) == []
        shop.clock.advance(MINUTE)
        assert len(await fire_due(shop.store)) == 1
        assert await keys(shop) == [f"s@{to_iso(one.next_at + n * MINUTE)}" for n in range(2)]


@on_every_store
@pytest.mark.parametrize(
    "catch_up, instants_made", [(CatchUp.SKIP, [9]), (CatchUp.ONE, [0]), (CatchUp.ALL, list(range(10)))]
)
async def test_what_was_missed_is_worked_off_once(
    backend: Backend, catch_up: CatchUp, instants_made: list[int]
) -> None:
    """Three processes look at the same time after nine minutes without any."""
    async with opened(backend) as shop:
        one = await minutely(shop, catch_up)
        shop.clock.advance(one.next_at - shop.clock.wall_us() + 9 * MINUTE + LATE_US // 2)
        made = await asyncio.gather(*(fire_due(shop.store) for _ in range(3)))
        assert len([job for some in made for job in some]) == len(instants_made)
        assert await keys(shop) == [f"s@{to_iso(one.next_at + n * MINUTE)}" for n in instants_made]
        assert (await shop.store.schedules.get("s")).next_at == one.next_at + 10 * MINUTE


@on_every_store
async def test_a_long_absence_does_not_hold_a_process(backend: Backend) -> None:
    async with opened(backend) as shop:
        await minutely(shop, CatchUp.ALL)
        shop.clock.advance(3 * HOUR)
        counts = [len(await fire_due(shop.store)) for _ in range(3)]
        assert counts == [AT_ONCE, 180 - AT_ONCE, 0]


@on_every_store
async def test_one_that_cannot_fire_keeps_nobody_from_it(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """A full queue, and a zone that this host does not know."""
    caplog.set_level(logging.WARNING, "holdfast.schedules")
    async with opened(backend) as shop:
        one = await minutely(shop, schedule_id="z")
        full = msgspec.structs.replace(one, schedule_id="a", queue="full", catch_up=CatchUp.ONE)
        strange = msgspec.structs.replace(one, schedule_id="b", time_zone="Europe/Atlantis")
        await shop.store.schedules.put(full)
        await shop.store.schedules.put(strange)
        await shop.store.queues.limit(QueueLimits(queue="full", depth_max=0))
        shop.clock.advance(MINUTE)
        assert len(await fire_due(shop.store)) == 1
        assert "schedule a did not fire: queue 'full' is full" in caplog.text
        assert "schedule b did not fire: there is no time zone 'Europe/Atlantis'" in caplog.text
        await shop.store.queues.limit(QueueLimits(queue="full"))
        assert len(await fire_due(shop.store)) == 1, "there is room now"


@on_every_store
async def test_standing_again_and_resuming(backend: Backend) -> None:
    async with opened(backend) as shop:
        one = await minutely(shop)
        shop.clock.advance(5 * MINUTE)
        assert await minutely(shop) == one, "a restart misses nothing"
        await shop.store.schedules.pause("s")
        assert await fire_due(shop.store) == []
        resumed = await resume(shop.store, "s")
        assert not resumed.paused
        assert resumed.next_at == cron.compile_cron("* * * * *", "UTC")(shop.clock.wall_us())
        assert await fire_due(shop.store) == [], "what came in the pause was not wanted"
