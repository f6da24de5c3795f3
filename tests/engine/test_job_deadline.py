"""Goal: a job that takes too long fails at its deadline, whatever it does, and never runs again. Method: kinds with a
timeout on every store, a clock that is moved, workers that are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.engine.children import spawn
from holdfast.engine.execution import Execution
from holdfast.engine.job_results import wait_for_result
from holdfast.engine.suspension import wait
from holdfast.errors import JobTimedOut
from holdfast.model.jobs import JobDraft, JobFilter
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import HOUR, MINUTE, SECOND
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)

LATE = "was not over within its timeout of 10 m"


class Kind:
    """A kind of jobs with a timeout, as an agent declares it."""

    def __init__(self, function: Callable[[Execution, Any], Awaitable[Any]], timeout_us: int) -> None:
        self._function = function
        self.timeout_us = timeout_us

    async def program(self, drive: Execution, given: Any) -> Any:
        return await self._function(drive, given)


async def submit(
    shop: Shop, function: Any, *, timeout_us: int = 10 * MINUTE, ready_at: int = 0
) -> tuple[str, int]:
    """The job's id and when it was submitted."""
    shop.programs["slow"] = Kind(function, timeout_us).program
    submitted = await shop.store.jobs.submit(JobDraft(kind="slow", ready_at=ready_at))
    return submitted.job_id, (await shop.store.jobs.get(submitted.job_id)).created_at


async def check_timed_out(shop: Shop, job_id: str, message: str = LATE) -> None:
    job = await shop.job(job_id)
    assert job.status is Status.FAILED
    assert job.error == {"type": "JobTimedOut", "message": f"job {job_id} {message}"}
    assert (await shop.store.jobs.head(job_id)).lease_token == ""
    with pytest.raises(JobTimedOut, match=message) as caught:
        await wait_for_result(shop.store, job_id)
    assert caught.value.job_id == job_id
    shop.clock.advance(24 * HOUR)
    assert await shop.claim_all() == [], "it never runs again"


async def test_a_job_that_waits_for_ever_fails_at_its_deadline(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def waits(drive: Execution, _: Any) -> Any:
            await shop.look(drive, "before")
            return await wait(drive, "what nobody says")

        job_id, created_at = await submit(shop, waits)
        assert await shop.drive_all() == ["waiting"]
        head = await shop.store.jobs.head(job_id)
        assert (head.wait_reason, head.wake_at) == (WaitReason.SIGNAL, created_at + 10 * MINUTE)
        backend.clock.advance(9 * MINUTE)
        assert await shop.drive_all() == []
        backend.clock.advance(1 * MINUTE)
        assert await shop.drive_all() == ["failed"]
        await check_timed_out(shop, job_id)
        assert shop.done == {"before": 1}


async def test_code_that_is_under_way_is_cancelled(backend: Backend) -> None:
    async with opened(backend) as shop:
        hanging = asyncio.get_running_loop().create_future()
        seen = []

        async def hangs(drive: Execution, _: Any) -> Any:
            try:
                return await shop.look(drive, "hang", lambda: hanging)
            except asyncio.CancelledError:
                seen.append("cancelled")
                await shop.look(drive, "after")  # no call is made any more
                raise

        # The loop's own time passes, too: the timer looks at store time whenever it fires.
        job_id, _ = await submit(shop, hangs, timeout_us=10_000)
        going = asyncio.create_task((await shop.claim()).go())
        await shop.until("hang")
        backend.clock.advance(1 * SECOND)
        assert await going == "failed"
        assert seen == ["cancelled"]
        assert shop.done == {"hang": 1}
        await check_timed_out(shop, job_id, "was not over within its timeout of 10 ms")


async def test_no_takeover_moves_it(backend: Backend) -> None:
    """Workers die with the job in hand; the one that has it after the deadline runs none of its code."""
    async with opened(backend) as shop:

        async def looks(drive: Execution, _: Any) -> Any:
            return await shop.look(drive, "a")

        job_id, _ = await submit(shop, looks)
        for nth in range(5):
            await shop.claim(worker=f"dies {nth}", ttl_us=MINUTE)
            backend.clock.advance(2 * MINUTE)
        assert await (await shop.claim(worker="last")).go() == "failed"
        assert not shop.done
        await check_timed_out(shop, job_id)


async def test_no_attempt_is_made_after_it(backend: Backend) -> None:
    """The pause before the next attempt ends with the job's time at the latest."""
    async with opened(backend) as shop:

        async def fails(drive: Execution, _: Any) -> Any:
            await shop.look(drive, "a")
            raise OSError("away")

        job_id, created_at = await submit(shop, fails, timeout_us=100_000)
        assert await (await shop.claim()).go() == "pending"
        assert (await shop.store.jobs.head(job_id)).ready_at == created_at + 100_000, (
            "and not in half a second"
        )
        backend.clock.advance(100_000)
        assert await shop.drive_all() == ["failed"]
        assert (await shop.job(job_id)).claims == 2
        await check_timed_out(shop, job_id, "was not over within its timeout of 100 ms")


async def test_a_delay_before_the_start_does_not_count(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def waits(drive: Execution, _: Any) -> Any:
            return await wait(drive, "what nobody says")

        start_at = backend.clock.wall_us() + 5 * HOUR
        job_id, _ = await submit(shop, waits, ready_at=start_at)
        backend.clock.advance(5 * HOUR)
        assert await shop.drive_all() == ["waiting"]
        assert (await shop.store.jobs.head(job_id)).wake_at == start_at + 10 * MINUTE


async def test_a_parent_catches_it_by_class_and_descendants_are_cancelled(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def grandchild(drive: Execution, _: Any) -> Any:
            return await wait(drive, "what nobody says")

        async def child(drive: Execution, _: Any) -> Any:
            return await spawn(drive, JobDraft(kind="grandchild"))

        async def parent(drive: Execution, _: Any) -> Any:
            try:
                return await spawn(drive, JobDraft(kind="child"))
            except JobTimedOut as error:
                return str(error)

        shop.programs["grandchild"] = grandchild
        shop.programs["child"] = Kind(child, 10 * MINUTE).program
        job_id = await shop.submit(parent)
        assert await shop.drive_all() == ["waiting"] * 3
        backend.clock.advance(10 * MINUTE)
        await shop.drive_all()
        job = await shop.job(job_id)
        (late,) = (await shop.store.jobs.list(JobFilter(kind="child"))).items
        (below,) = (await shop.store.jobs.list(JobFilter(kind="grandchild"))).items
        assert (job.status, job.output) == (Status.COMPLETED, f"job {late.job_id} {LATE}")
        assert (late.status, below.status) == (Status.FAILED, Status.CANCELLED)


async def test_a_cancel_goes_before_it(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def waits(drive: Execution, _: Any) -> Any:
            return await wait(drive, "what nobody says")

        job_id, _ = await submit(shop, waits)
        await shop.drive_all()
        backend.clock.advance(10 * MINUTE)
        await shop.tell(job_id, MailKind.CANCEL)
        assert await shop.drive_all() == ["cancelled"]


async def test_a_held_job_stays_held_and_a_person_begins_its_time_anew(backend: Backend) -> None:
    async with opened(backend) as shop:
        mended = False

        async def fails(drive: Execution, _: Any) -> Any:
            if not mended:
                raise TypeError("the code is wrong")
            return await wait(drive, "what nobody says")

        job_id, _ = await submit(shop, fails)
        assert await shop.drive_all() == ["waiting"]
        assert (await shop.store.jobs.head(job_id)).wait_reason is WaitReason.DEAD_LETTER
        backend.clock.advance(24 * HOUR)
        assert await shop.drive_all() == []
        mended = True
        await shop.tell(job_id, MailKind.RESUME)
        resumed_at = backend.clock.wall_us()
        assert await shop.drive_all() == ["pending", "waiting"]
        head = await shop.store.jobs.head(job_id)
        assert head.wait_reason is WaitReason.SIGNAL
        assert head.wake_at == resumed_at + 10 * MINUTE
        backend.clock.advance(10 * MINUTE)
        assert await shop.drive_all() == ["failed"]
        await check_timed_out(shop, job_id)
