"""A worker that was asleep while its job went to another writes nothing.

The clock decides who may claim, the fence decides who may write. So a frozen process is the test: it believes that it
holds the job, its connection works, and everything it knew has become wrong while it did not look.
"""

from __future__ import annotations

import asyncio
import functools
import time
from dataclasses import asdict

import pytest

from holdfast.errors import StoreBusy
from holdfast.model.hash_chain import unseal
from holdfast.model.jobs import JobDraft
from holdfast.model.lease import LEASE_TTL_US
from holdfast.model.states import Status
from holdfast.model.time import MILLISECOND, SECOND
from holdfast.testing.conformance.driver import Driver, step
from tests.store.concurrency.children import MARK, WRITES
from tests.store.concurrency.processes import child
from tests.store.concurrency.stores import BOTH, Place, check_journal, fresh, opened, taken, until

TTL_US = 300 * MILLISECOND


@pytest.mark.parametrize("place", BOTH, indirect=True)
@pytest.mark.parametrize("sleepers", [1, pytest.param(20, marks=pytest.mark.chaos)])
async def test_a_writer_that_slept_through_its_lease_is_refused(place: Place, sleepers: int) -> None:
    """Goal: no stale write is accepted. Method: freeze a process right before it writes, in every way a worker can;
    take its jobs over once the lease has run out, write, let it go on, and look for anything of it."""
    async with opened(place) as store:
        for _ in range(sleepers):
            queue, kept_queue = fresh("queue"), fresh("queue")
            await store.jobs.submit_many([JobDraft(kind="work", queue=queue) for _ in WRITES])
            await store.jobs.submit(JobDraft(kind="work", queue=kept_queue))
            told = {"queue": queue, "kept_queue": kept_queue, "ttl_us": TTL_US, **asdict(place)}
            with child("sleeper", **told) as sleeper:
                jobs = (said := await asyncio.to_thread(sleeper.hear))["jobs"]
                assert len(jobs) == len(WRITES)
                await asyncio.to_thread(sleeper.until_stopped)

                drivers: list[Driver] = []
                while len(drivers) < len(jobs):
                    claim = functools.partial(taken, store, queue, limit=len(WRITES), worker="next")
                    drivers += await until(claim, "the lease to run out")
                assert sorted(driver.job_id for driver in drivers) == sorted(jobs)
                assert all(driver.grant.takeover for driver in drivers)
                for driver in drivers:
                    await driver.write(step("by the next worker"))
                # Its lease on this one is over too, or soon, since it was the last; but nobody wants the job.
                assert await until(store.leases.list_expired, "the last lease to run out") == [said["kept"]]
                sleeper.go_on()
                said |= await asyncio.to_thread(sleeper.hear)

            assert said["outcomes"] == ["fenced"] * len(WRITES)
            assert said["renewed"] == [said["kept"]], "a lost lease cannot be renewed, a late one can"
            assert said["late"] == "accepted", "the fence decides, not the clock"
            for driver in drivers:
                await _has_only_the_writes_of(driver)
            await check_journal(store, said["kept"])


@pytest.mark.chaos
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
async def test_a_process_frozen_inside_a_transaction_is_cut_off(place: Place) -> None:
    """Goal: a frozen client cannot hold a row for longer than its lease. Method: freeze a process before its COMMIT;
    whoever needs the same row is told "busy" until the server ends that transaction, and then gets it."""
    key, busy = "half", 0
    async with opened(place) as store:
        with child("half_writer", request_key=key, **asdict(place)) as writer:
            assert await asyncio.to_thread(writer.hear) == {"inside": True}
            await asyncio.to_thread(writer.until_stopped)
            began, made = time.monotonic(), None
            while made is None:
                try:
                    made = await store.jobs.submit(JobDraft(kind="work", job_id=key, request_key=key))
                except StoreBusy:
                    busy += 1
            waited_s = time.monotonic() - began
            writer.go_on()
            assert await asyncio.to_thread(writer.hear) == {"done": True}, "it finds its job made by us"
        print(f"told busy {busy} times, served after {waited_s:.1f} s")
        assert made.job_id == key
        assert waited_s * SECOND < LEASE_TTL_US
        assert len(await check_journal(store, key)) == 1


async def _has_only_the_writes_of(driver: Driver) -> None:
    store, job_id = driver.store, driver.job_id
    hashes = await check_journal(store, job_id)
    assert hashes[-1] == driver.holder.head.hash
    events = [unseal(event) for event in await store.journal.read(job_id)]
    assert [event.type for event in events] == ["job_created", "job_claimed", "job_claimed", "step_finished"]
    assert not any(MARK in str(event) for event in events)
    assert await store.post.timers(job_id) == []
    assert await store.ledger.list(job_id) == []
    assert (await store.jobs.head(job_id)).status is Status.RUNNING
    assert await store.leases.renew([driver.held]) == {job_id}
