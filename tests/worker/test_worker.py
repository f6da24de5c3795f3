"""A worker: what it takes, what it holds, how it ends."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.engine.drive import Drive
from holdfast.engine.timers import sleep
from holdfast.model.instants import HOUR
from holdfast.model.mail import MailDraft
from holdfast.model.states import MailKind, Status
from holdfast.testing.conformance.bench import Backend
from holdfast.worker.worker import Worker
from tests.engine.shop import Shop, opened
from tests.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)

_tokens = itertools.count(1)


@asynccontextmanager
async def working(shop: Shop, *, concurrency: int = 16) -> AsyncIterator[Worker]:
    desk = shop.desk()
    worker = Worker(desk, "worker-1", lambda: f"claim-{next(_tokens)}", concurrency=concurrency)
    task = asyncio.create_task(worker.work())
    try:
        yield worker
    finally:
        worker.drain()
        await task


async def ended(shop: Shop, job_id: str) -> Status:
    """The job's status once it is over."""
    while True:
        head = await shop.store.jobs.head(job_id)
        if head.status in {Status.COMPLETED, Status.FAILED, Status.CANCELLED}:
            return head.status
        await shop.store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.05)


async def test_jobs_are_done_and_never_more_at_once_than_there_is_room(backend: Backend) -> None:
    async with opened(backend) as shop:
        running = most = 0
        crowded = asyncio.Event()

        async def busy(drive: Drive, given: Any) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            if running == 4:
                crowded.set()
            await crowded.wait()
            for n in range(3):
                await shop.look(drive, f"{given}.{n}")
                await asyncio.sleep(0)
            running -= 1
            return given

        ids = [await shop.submit(busy, n) for n in range(30)]
        async with working(shop, concurrency=4):
            assert {await ended(shop, job_id) for job_id in ids} == {Status.COMPLETED}
        assert most == 4
        assert set(shop.done.values()) == {1}


async def test_a_job_that_comes_later_is_taken(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def quick(_drive: Drive, given: Any) -> Any:
            return given

        shop.programs["quick"] = quick
        async with working(shop):
            assert await ended(shop, await shop.submit(quick, 1)) is Status.COMPLETED
            assert await ended(shop, await shop.submit(quick, 2)) is Status.COMPLETED


async def test_a_cancel_reaches_a_call_that_runs(backend: Backend) -> None:
    async with opened(backend) as shop:
        never = asyncio.get_running_loop().create_future()

        async def stuck(drive: Drive, _: Any) -> Any:
            return await shop.look(drive, "stuck", lambda: never)

        job_id = await shop.submit(stuck)
        async with working(shop):
            await shop.until("stuck")
            await shop.store.post.send(MailDraft(job_id=job_id, kind=MailKind.CANCEL, operation_id="op-1"))
            assert await ended(shop, job_id) is Status.CANCELLED
        assert never.cancelled()


async def test_a_drained_worker_holds_nothing(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def sleepy(drive: Drive, _: Any) -> Any:
            await sleep(drive, HOUR)

        job_id = await shop.submit(sleepy)
        async with working(shop):
            while (await shop.store.jobs.head(job_id)).status is not Status.WAITING:
                await shop.store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.02)
        head = await shop.store.jobs.head(job_id)
        assert (head.lease_token, head.lease_owner) == ("", "")
