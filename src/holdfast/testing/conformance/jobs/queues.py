"""Queue limits: when a queue rejects submissions."""

from __future__ import annotations

import asyncio

from holdfast.errors import Busy, InvalidPayload, NotFound
from holdfast.model.append import Extras
from holdfast.model.jobs import JobDraft
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.schedule import Schedule, make_job
from holdfast.model.time import HOUR, MINUTE
from holdfast.testing.conformance.drafts import message
from holdfast.testing.conformance.driver import step
from holdfast.testing.conformance.harness import Bench


async def a_queue_without_limits_takes_everything(bench: Bench) -> None:
    await bench.store.queues.limit(QueueLimits(queue="full", depth_max=0))
    assert await bench.store.queues.list() == [QueueLimits(queue="full", depth_max=0)]
    for _ in range(5):
        await bench.submit()
    async with bench.refuses(Busy) as refusal:
        await bench.submit(queue="full")
    assert (refusal.error.retry, refusal.error.retry_after_s > 0) == (True, True)
    await bench.store.queues.limit(QueueLimits(queue="full"))
    assert await bench.store.queues.list() == []
    await bench.submit(queue="full")


async def a_queue_is_full_at_its_depth(bench: Bench) -> None:
    """For one job, for many, for a message; a claimed job makes room, and accepted jobs stay accepted."""
    jobs = bench.store.jobs
    await bench.store.queues.limit(QueueLimits(queue="q", depth_max=3))
    first = JobDraft(kind="work", queue="q", request_key="first")
    await jobs.submit(first)
    async with bench.refuses(Busy):
        await jobs.submit_many([JobDraft(kind="work", queue="q") for _ in range(3)])
    async with bench.refuses(Busy):
        await jobs.submit_many([JobDraft(kind="work", queue="q", request_key=f"r{n}") for n in range(3)])
    await jobs.submit_many([JobDraft(kind="work", queue="q") for _ in range(2)])
    async with bench.refuses(Busy):
        await bench.submit(queue="q")
    async with bench.refuses(Busy, "ada"):
        await bench.store.inbox.deliver(
            message("hello", session_id="ada"), JobDraft(kind="chat", queue="q", session_id="ada")
        )
    async with bench.expect_unchanged():
        assert not (await jobs.submit(first)).created
    assert len(await bench.grants(queues=("q",), limit=1)) == 1
    await bench.submit(queue="q")


async def a_queue_is_behind_at_its_age(bench: Bench) -> None:
    await bench.store.queues.limit(QueueLimits(queue="q", age_max_us=MINUTE))
    await bench.submit(queue="q", ready_at=bench.clock.wall_us() + HOUR)
    await bench.submit(queue="q")
    bench.clock.advance(MINUTE)
    await bench.submit(queue="q")
    bench.clock.advance(1)
    async with bench.refuses(Busy):
        await bench.submit(queue="q")
    assert len(await bench.grants(queues=("q",), limit=1)) == 1, "the oldest"
    await bench.submit(queue="q")


async def limits_are_a_namespaces_own(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    limits = QueueLimits(queue="q", namespace="elsewhere", depth_max=1)
    await bench.store.queues.limit(limits)
    assert await bench.store.queues.list() == []
    assert await bench.store.queues.list(namespace="elsewhere") == [limits]
    for _ in range(3):
        await bench.submit(queue="q")
    await bench.submit(queue="q", namespace="elsewhere")
    async with bench.refuses(Busy):
        await bench.submit(queue="q", namespace="elsewhere")
    async with bench.refuses(NotFound):
        await bench.store.queues.limit(QueueLimits(queue="q", namespace="nowhere", depth_max=1))
    async with bench.refuses(InvalidPayload):
        await bench.store.queues.limit(QueueLimits(queue="q", depth_max=-1))
    await bench.reopen()
    assert await bench.store.queues.list(namespace="elsewhere") == [limits]


async def work_that_was_let_in_always_fits(bench: Bench) -> None:
    """A child of a running job, and a job that is given back."""
    driver = await bench.drive_new()
    queue = (await bench.store.jobs.get(driver.job_id)).queue
    await bench.store.queues.limit(QueueLimits(queue=queue, depth_max=0, age_max_us=0))
    child = JobDraft(kind="child", queue=queue, job_id="job_child", parent_job_id=driver.job_id)
    await driver.write(step("one"), extras=Extras(children=(child,)))
    await driver.release()
    assert sorted(await bench.claimable(queues=(queue,))) == sorted([driver.job_id, "job_child"])


async def of_two_for_the_last_place_one_gets_it(bench: Bench) -> None:
    await bench.store.queues.limit(QueueLimits(queue="q", depth_max=3))
    submissions = (bench.store.jobs.submit(JobDraft(kind="work", queue="q")) for _ in range(8))
    answers = await asyncio.gather(*submissions, return_exceptions=True)
    assert [isinstance(answer, Busy) for answer in answers].count(False) == 3


async def a_schedule_waits_for_room(bench: Bench) -> None:
    now = bench.clock.wall_us()
    await bench.store.queues.limit(QueueLimits(queue="q", depth_max=0))
    schedule = await bench.store.schedules.put(
        Schedule(schedule_id="s", kind="work", cron="0 * * * *", next_at=now, queue="q")
    )
    async with bench.refuses(Busy):
        await bench.store.schedules.fire(schedule, make_job(schedule, now), now + HOUR)
    await bench.store.queues.limit(QueueLimits(queue="q", depth_max=1))
    assert await bench.store.schedules.fire(schedule, make_job(schedule, now), now + HOUR) is not None
