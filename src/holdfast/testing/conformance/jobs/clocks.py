"""Store time: setting the wall clock changes no duration. Only schedules use the wall clock."""

from __future__ import annotations

from holdfast.model.schedule import Schedule
from holdfast.model.states import WaitReason
from holdfast.model.time import DAY, HOUR, MINUTE
from holdfast.testing.conformance.harness import Bench


async def a_step_back_keeps_no_job_waiting(bench: Bench) -> None:
    before = await bench.submit()
    bench.clock.jump_wall(-HOUR)
    assert await bench.claimable() == [before]
    after = await bench.submit()
    bench.clock.jump_wall(-HOUR)
    assert await bench.claimable() == [after]


async def a_step_wakes_nothing_early_and_nothing_late(bench: Bench) -> None:
    for hours in (2, -2):
        driver = await bench.drive_new()
        await driver.wait(WaitReason.TIMER, wake_at=bench.store.clock.wall_us() + HOUR)
        bench.clock.jump_wall(hours * HOUR)
        assert await bench.claimable(queues=(driver.grant.queue,)) == []
        bench.clock.advance(HOUR)
        assert await bench.claimable(queues=(driver.grant.queue,)) == [driver.job_id]


async def a_step_changes_no_lifetime(bench: Bench) -> None:
    await bench.store.cache.put(b"k" * 32, b"answer", ttl_us=HOUR)
    bench.clock.jump_wall(DAY)
    assert await bench.store.cache.get(b"k" * 32) is not None
    bench.clock.jump_wall(-2 * DAY)
    bench.clock.advance(HOUR)
    assert await bench.store.cache.get(b"k" * 32) is None


async def store_time_is_the_same_for_a_new_handle(bench: Bench) -> None:
    bench.clock.jump_wall(-DAY)
    before = bench.store.clock.wall_us()
    await bench.reopen()
    assert bench.store.clock.wall_us() == before
    assert bench.store.clock.calendar_us() == bench.clock.wall_us() == before - DAY
    assert (await bench.store.vitals.read()).now == before


async def a_boot_with_a_wrong_clock_does_not_go_back(bench: Bench) -> None:
    await bench.submit()
    before = bench.store.clock.wall_us()
    bench.clock.jump_wall(-DAY)
    bench.reboot()
    await bench.reopen()
    assert bench.store.clock.wall_us() >= before


async def a_boot_sets_store_time_right(bench: Bench) -> None:
    bench.clock.jump_wall(DAY)
    bench.reboot()
    await bench.reopen()
    assert bench.store.clock.wall_us() == bench.clock.wall_us()


async def schedules_go_by_the_wall_clock(bench: Bench) -> None:
    next_at = bench.clock.wall_us() + HOUR
    schedule = await bench.store.schedules.put(
        Schedule(schedule_id="report", kind="report", cron="0 7 * * *", next_at=next_at)
    )
    bench.clock.jump_wall(HOUR)
    assert await bench.store.schedules.due() == (schedule,)
    bench.clock.jump_wall(-MINUTE)
    assert await bench.store.schedules.due() == ()
