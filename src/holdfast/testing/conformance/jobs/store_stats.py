"""Store statistics."""

from __future__ import annotations

import hashlib

from holdfast.model.append import Extras
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import Status, WaitReason
from holdfast.model.store_stats import QueueStats
from holdfast.model.time import HOUR, MINUTE, SECOND
from holdfast.testing.conformance.drafts import call_row, intent_of, make_settled_row, outcome_of
from holdfast.testing.conformance.driver import Driver
from holdfast.testing.conformance.harness import Bench


async def an_empty_store_has_nothing_to_say(bench: Bench) -> None:
    vitals = await bench.store.vitals.read()
    assert (vitals.lines, vitals.oldest_ready_us, vitals.expired, vitals.uncertain) == ((), 0, 0, 0)
    assert vitals.now == bench.clock.wall_us()


async def jobs_are_counted_where_they_stand(bench: Bench) -> None:
    """Ended jobs are not counted, however many there are."""
    for end in ("one", "two"):
        await (await _drive_new(bench, "done")).complete(end)
    await (await _drive_new(bench, "a")).wait(WaitReason.TIMER, wake_at=bench.clock.wall_us() + HOUR)
    await (await _drive_new(bench, "a")).wait(WaitReason.SIGNAL)
    await _drive_new(bench, "b")
    await bench.submit(queue="b")
    await bench.submit(queue="b")
    assert (await bench.store.vitals.read()).lines == (
        QueueStats("a", Status.WAITING, WaitReason.SIGNAL, 1, 0),
        QueueStats("a", Status.WAITING, WaitReason.TIMER, 1, 0),
        QueueStats("b", Status.PENDING, None, 2, 0),
        QueueStats("b", Status.RUNNING, None, 1, 0),
    )


async def the_oldest_that_could_run_has_an_age(bench: Bench) -> None:
    await bench.submit(ready_at=bench.clock.wall_us() + HOUR)
    bench.clock.advance(SECOND)
    assert (await bench.store.vitals.read()).oldest_ready_us == 0, "it could not run yet"
    await bench.submit()
    bench.clock.advance(MINUTE)
    await bench.submit()
    assert (await bench.store.vitals.read()).oldest_ready_us == MINUTE


async def leases_that_are_over_are_counted(bench: Bench) -> None:
    await _drive_new(bench, "short", ttl_us=MINUTE)
    await _drive_new(bench, "long", ttl_us=HOUR)
    assert (await bench.store.vitals.read()).expired == 0
    bench.clock.advance(MINUTE)
    assert (await bench.store.vitals.read()).expired == 1
    await bench.grants(queues=("short",), worker="next")
    lines = (await bench.store.vitals.read()).lines
    assert {line.queue: line.takeovers for line in lines} == {"short": 1, "long": 0}


async def uncertain_calls_are_counted(bench: Bench) -> None:
    driver = await bench.drive_new()
    for step_key, status in (
        ("1/a#1", CallStatus.UNCERTAIN),
        ("1/b#1", CallStatus.SUCCEEDED),
        ("1/c#1", None),
    ):
        row = call_row(driver, step_key)
        await driver.write(intent_of(row), extras=Extras(calls=(row,)))
        if status is not None:
            row = make_settled_row(driver, row, status)
            await driver.write(outcome_of(row), extras=Extras(calls=(row,)))
    assert (await bench.store.vitals.read()).uncertain == 1


async def kept_answers_are_counted(bench: Bench) -> None:
    for name, ttl_us in (("a", MINUTE), ("b", HOUR), ("c", HOUR)):
        await bench.store.cache.put(hashlib.sha256(name.encode()).digest(), b"x", ttl_us=ttl_us)
    bench.clock.advance(MINUTE)
    vitals = await bench.store.vitals.read()
    assert (vitals.cached, vitals.cached_over) == (2, 1)


async def _drive_new(bench: Bench, queue: str, *, ttl_us: int = MINUTE) -> Driver:
    await bench.submit(queue=queue)
    return await bench.drive(queue, ttl_us=ttl_us)
