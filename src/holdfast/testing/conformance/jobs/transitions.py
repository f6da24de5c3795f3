"""Status changes by an append: release, wait, end, timers."""

from __future__ import annotations

from holdfast.model.append import Extras, Move, Timer
from holdfast.model.events import JobCancellation, JobFailure, JobParked, JobReleased, JobRequeued, TimerSet
from holdfast.model.states import Status, WaitReason
from holdfast.model.time import MINUTE
from holdfast.testing.conformance.driver import step
from holdfast.testing.conformance.harness import Bench
from holdfast.testing.conformance.jobs.submit import assert_no_lease


async def a_released_job_is_ready_now(bench: Bench) -> None:
    driver = await bench.drive_new()
    bench.clock.advance(MINUTE)
    await driver.release()
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.status, head.ready_at) == (Status.PENDING, bench.clock.wall_us())
    assert_no_lease(head)
    assert head.fence == driver.grant.fence, "giving back raises no fence"
    assert (await bench.drive(driver.grant.queue)).job_id == driver.job_id


async def a_released_job_may_be_ready_later(bench: Bench) -> None:
    driver = await bench.drive_new()
    later = bench.clock.wall_us() + MINUTE
    await driver.release(ready_at=later)
    assert (await bench.store.jobs.head(driver.job_id)).ready_at == later
    assert await bench.claimable(queues=(driver.grant.queue,)) == []
    bench.clock.advance(MINUTE)
    assert await bench.claimable(queues=(driver.grant.queue,)) == [driver.job_id]


async def a_waiting_job_says_what_it_waits_for(bench: Bench) -> None:
    driver = await bench.drive_new()
    due = bench.clock.wall_us() + MINUTE
    await driver.wait(WaitReason.APPROVAL, wake_at=due)
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.status, head.wait_reason, head.wake_at) == (Status.WAITING, WaitReason.APPROVAL, due)
    assert_no_lease(head)
    record = await bench.store.jobs.get(driver.job_id)
    assert (record.status, record.wait_reason) == (Status.WAITING, WaitReason.APPROVAL)


async def a_parked_job_is_held_for_a_person(bench: Bench) -> None:
    driver = await bench.drive_new()
    move = Move(status=Status.WAITING, reason=WaitReason.DRIFT)
    await driver.write(JobParked(report={"expected": "a", "got": "b"}), move=move)
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.wait_reason, head.wake_at) == (WaitReason.DRIFT, None)


async def a_job_that_is_over_is_nobodys_and_waits_for_nothing(bench: Bench) -> None:
    ends = {Status.FAILED: JobFailure(error={"why": "no"}), Status.CANCELLED: JobCancellation(why="asked")}
    for status, event in ends.items():
        driver = await bench.drive_new()
        await driver.write(TimerSet("1/sleep#1", 7), extras=Extras(timers=(Timer("1/sleep#1", 7),)))
        await driver.write(event, move=Move(status=status))
        head = await bench.store.jobs.head(driver.job_id)
        assert (head.status, head.wait_reason, head.wake_at) == (status, None, None)
        assert_no_lease(head)
        assert await bench.store.post.timers(driver.job_id) == [], "its timers went with it"
        assert (await bench.store.jobs.get(driver.job_id)).status is status


async def attempts_count_failures_only(bench: Bench) -> None:
    driver = await bench.drive_new()
    queue = driver.grant.queue
    await driver.release()
    driver = await bench.drive(queue)
    assert driver.grant.attempts == 0, "to be drained is not to fail"
    await driver.release(failed=True)
    driver = await bench.drive(queue)
    assert driver.grant.attempts == 1
    await driver.write(step("progress"), progress=True)
    await driver.release(failed=True)
    assert (await bench.store.jobs.head(driver.job_id)).attempts == 2, "progress does not wipe failures out"


async def a_job_that_begins_again_has_used_up_nothing(bench: Bench) -> None:
    driver = await bench.drive_new()
    queue = driver.grant.queue
    await driver.release(failed=True)
    await bench.drive(queue, ttl_us=0)
    driver = await bench.drive(queue)
    assert (driver.grant.attempts, driver.grant.takeovers) == (1, 1)
    again = Move(status=Status.PENDING, anew=True)
    await driver.write(JobRequeued(why="asked"), move=again)
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.status, head.attempts, head.takeovers) == (Status.PENDING, 0, 0)
    driver = await bench.drive(queue)
    assert (driver.grant.attempts, driver.grant.takeovers) == (0, 0)


async def a_holder_that_is_gone_is_counted_by_the_append_that_says_so(bench: Bench) -> None:
    """Progress clears the takeovers before it, but not the one written with it or after it. In one append, and in two
    of one batch."""
    gone = Move(status=Status.PENDING, takeover=True)
    first, second, third = [await bench.drive_new() for _ in range(3)]
    await first.write(step("progress"), progress=True)
    await first.write(JobRequeued(why="died", takeover=True), move=gone)
    await bench.store.journal.append_many(
        [
            second.build(JobRequeued(why="died", takeover=True), move=gone),
            third.build(step("progress"), JobReleased(), move=Move(status=Status.PENDING), progress=True),
        ]
    )
    counted = [(await bench.store.jobs.head(driver.job_id)).takeovers for driver in (first, second, third)]
    assert counted == [1, 1, 0]
    assert (await bench.drive(first.grant.queue)).grant.takeovers == 1


async def beginning_again_leaves_the_neighbours_counts_alone(bench: Bench) -> None:
    """Both in one batch: one is requeued by a person, the other has failed once more."""
    first, second = await bench.drive_new(), await bench.drive_new()
    await first.release(failed=True)
    await second.release(failed=True)
    first, second = await bench.drive(first.grant.queue), await bench.drive(second.grant.queue)
    again = first.build(JobRequeued(why="asked"), move=Move(status=Status.PENDING, anew=True))
    failed = second.build(JobRequeued(why="failed"), move=Move(status=Status.PENDING, failed=True))
    await bench.store.journal.append_many([again, failed])
    assert (await bench.store.jobs.head(first.job_id)).attempts == 0
    assert (await bench.store.jobs.head(second.job_id)).attempts == 2


async def timers_are_set_moved_and_removed(bench: Bench) -> None:
    driver = await bench.drive_new()
    late, early = Timer("1/late#1", 30), Timer("1/early#1", 10)
    await driver.write(step("one"), extras=Extras(timers=(late, early)))
    assert await bench.store.post.timers(driver.job_id) == [early, late], "earliest first"
    moved = Timer("1/late#1", 5)
    await driver.write(step("two"), extras=Extras(timers=(moved,)))
    assert await bench.store.post.timers(driver.job_id) == [moved, early]
    await driver.write(
        step("three"), extras=Extras(timers=(Timer("1/late#1", None), Timer("1/unknown#1", None)))
    )
    assert await bench.store.post.timers(driver.job_id) == [early]


async def timers_of_two_jobs_do_not_meet(bench: Bench) -> None:
    first, second = await bench.drive_new(), await bench.drive_new()
    timer = Timer("1/sleep#1", 7)
    for driver in (first, second):
        await driver.write(step("one"), extras=Extras(timers=(timer,)))
    await first.complete()
    assert await bench.store.post.timers(second.job_id) == [timer]


async def a_waiting_job_keeps_its_timers(bench: Bench) -> None:
    driver = await bench.drive_new()
    timer = Timer("1/sleep#1", bench.clock.wall_us() + MINUTE)
    await driver.write(step("one"), extras=Extras(timers=(timer,)))
    await driver.wait(WaitReason.TIMER, wake_at=timer.due_at)
    assert await bench.store.post.timers(driver.job_id) == [timer]
