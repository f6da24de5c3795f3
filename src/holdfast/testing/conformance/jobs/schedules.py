"""Schedules: created, fired once, paused, changed, removed."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from holdfast.errors import InvalidName, NotFound
from holdfast.model.budget import Budget
from holdfast.model.jobs import JobFilter
from holdfast.model.schedule import CatchUp, Schedule, make_job
from holdfast.model.time import HOUR, MINUTE, to_iso
from holdfast.testing.conformance.harness import Bench


async def a_schedule_is_kept_whole(bench: Bench) -> None:
    schedule = Schedule(
        schedule_id="report",
        kind="report",
        cron="0 7 * * *",
        next_at=bench.clock.wall_us() + HOUR,
        time_zone="Europe/Berlin",
        catch_up=CatchUp.ALL,
        input={"topic": ["kelp"]},
        queue="slow",
        priority=7,
        budget=Budget(usd=2),
        python_version="3.12",
    )
    made = await bench.store.schedules.put(schedule)
    assert made == msgspec.structs.replace(schedule, created_at=bench.clock.wall_us())
    await bench.reopen()
    assert await bench.store.schedules.get("report") == made
    async with bench.refuses(NotFound):
        await bench.store.schedules.get("another")
    async with bench.refuses(InvalidName):
        await bench.store.schedules.put(msgspec.structs.replace(schedule, schedule_id="x" * 161))
    async with bench.refuses(NotFound):
        await bench.store.schedules.put(msgspec.structs.replace(schedule, namespace="nowhere"))


async def a_schedule_fires_once(bench: Bench) -> None:
    """Of several workers that have seen the same instant, one creates the job and the others nothing."""
    schedules = bench.store.schedules
    schedule = await _put_schedule(bench, input={"a": 1}, queue="q", budget=Budget(usd=1))
    assert await schedules.due() == (schedule,)
    job = make_job(schedule, schedule.next_at)
    fired = await asyncio.gather(*(schedules.fire(schedule, job, schedule.next_at + HOUR) for _ in range(5)))
    assert [answer is not None and answer.created for answer in fired].count(True) == 1
    (record,) = await bench.store.jobs.list(JobFilter())
    assert (record.kind, record.queue, record.request_key) == ("report", "q", job.request_key)
    assert record.request_key == f"report@{to_iso(schedule.next_at)}"
    assert len(await bench.store.budgets.find([record.job_id])) == 1
    assert (await schedules.get("report")).next_at == schedule.next_at + HOUR
    assert await schedules.due() == ()
    async with bench.expect_unchanged():
        assert await schedules.fire(schedule, job, schedule.next_at + HOUR) is None, "the instant is over"


async def an_instant_can_be_left_out(bench: Bench) -> None:
    schedule = await _put_schedule(bench)
    assert await bench.store.schedules.fire(schedule, None, schedule.next_at + HOUR) is None
    assert (await bench.store.schedules.get("report")).next_at == schedule.next_at + HOUR
    assert len(await bench.store.jobs.list(JobFilter())) == 0


async def what_was_changed_meanwhile_is_not_fired(bench: Bench) -> None:
    schedules = bench.store.schedules
    schedule = await _put_schedule(bench)
    job = make_job(schedule, schedule.next_at)
    await schedules.pause("report")
    assert await schedules.due() == ()
    async with bench.expect_unchanged():
        assert await schedules.fire(schedule, job, schedule.next_at + HOUR) is None
        assert await schedules.fire(await schedules.get("report"), job, schedule.next_at + HOUR) is None
    await schedules.resume("report", schedule.next_at)
    await _put_schedule(bench, input="another")
    async with bench.expect_unchanged():
        assert await schedules.fire(schedule, job, schedule.next_at + HOUR) is None
    assert await schedules.remove("report")
    async with bench.expect_unchanged():
        assert await schedules.fire(schedule, job, schedule.next_at + HOUR) is None


async def an_instant_that_was_fired_before_is_passed(bench: Bench) -> None:
    """After a schedule is removed and another is created under its id, the old instant's job stays as it is, and the
    new schedule moves on."""
    schedules = bench.store.schedules
    schedule = await _put_schedule(bench, input="first")
    fired = await schedules.fire(schedule, make_job(schedule, schedule.next_at), schedule.next_at + HOUR)
    assert fired is not None
    await schedules.remove("report")
    for input_ in ("first", "second"):
        again = await _put_schedule(bench, input=input_)
        answer = await schedules.fire(again, make_job(again, again.next_at), again.next_at + HOUR)
        assert answer is not None
        assert (answer.job_id, answer.created) == (fired.job_id, False)
        assert (await schedules.get("report")).next_at == schedule.next_at + HOUR
        await schedules.remove("report")


async def a_schedule_that_is_put_again_goes_on_where_it_stands(bench: Bench) -> None:
    schedules = bench.store.schedules
    schedule = await _put_schedule(bench)
    await schedules.fire(schedule, None, schedule.next_at + HOUR)
    await schedules.pause("report")
    bench.clock.advance(MINUTE)
    again = await schedules.put(
        msgspec.structs.replace(schedule, input=2, catch_up=CatchUp.ONE, paused=False)
    )
    assert (again.next_at, again.paused, again.created_at) == (
        schedule.next_at + HOUR,
        True,
        schedule.created_at,
    )
    assert (again.input, again.catch_up) == (2, CatchUp.ONE)
    for change in ({"cron": "5 * * * *"}, {"time_zone": "Asia/Tokyo"}):
        start = again.next_at + MINUTE
        again = await schedules.put(msgspec.structs.replace(again, next_at=start, **change))
        assert (again.next_at, again.paused) == (start, True), "other times start anew"


async def a_pause_ends_at_an_instant_to_come(bench: Bench) -> None:
    schedules = bench.store.schedules
    schedule = await _put_schedule(bench)
    assert (await schedules.resume("report", schedule.next_at + HOUR)).next_at == schedule.next_at, (
        "it was not paused"
    )
    assert (await schedules.pause("report")).paused
    assert (await schedules.pause("report")).paused
    resumed = await schedules.resume("report", schedule.next_at + HOUR)
    assert (resumed.paused, resumed.next_at) == (False, schedule.next_at + HOUR)
    assert await schedules.remove("report")
    assert not await schedules.remove("report")
    for refused in (schedules.pause, schedules.get):
        async with bench.refuses(NotFound):
            await refused("report")
    async with bench.refuses(NotFound):
        await schedules.resume("report", 0)


async def schedules_are_listed_by_id_and_due_by_age(bench: Bench) -> None:
    schedules = bench.store.schedules
    await bench.store.namespaces.create("elsewhere")
    now = bench.clock.wall_us()
    await _put_schedule(bench, "b", next_at=now)
    await _put_schedule(bench, "a", next_at=now + 1)
    await _put_schedule(bench, "c", next_at=now - 5)
    await _put_schedule(bench, "c", next_at=now - 3, namespace="elsewhere")
    first = await schedules.list(limit=2)
    assert [schedule.schedule_id for schedule in first] == ["a", "b"]
    second = await schedules.list(limit=2, cursor=first.next)
    assert ([schedule.schedule_id for schedule in second], second.next) == (["c"], None)
    assert [schedule.schedule_id for schedule in await schedules.list(namespace="elsewhere")] == ["c"]
    due = [(schedule.namespace, schedule.schedule_id) for schedule in await schedules.due()]
    assert due == [("default", "c"), ("elsewhere", "c"), ("default", "b")]
    assert len(await schedules.due(limit=1)) == 1
    await schedules.remove("c")
    assert (await schedules.get("c", namespace="elsewhere")).namespace == "elsewhere"
    bench.clock.advance(1)
    assert [schedule.schedule_id for schedule in await schedules.due()] == ["c", "b", "a"]


async def _put_schedule(bench: Bench, schedule_id: str = "report", **fields: Any) -> Schedule:
    """A schedule that is due now, unless the fields say otherwise."""
    values = {"kind": "report", "cron": "0 * * * *", "next_at": bench.clock.wall_us(), **fields}
    return await bench.store.schedules.put(Schedule(schedule_id=schedule_id, **values))
