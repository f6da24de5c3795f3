"""A worker: what it takes, what it holds, how it ends."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.engine.durable_call import DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.suspension import sleep
from holdfast.model.mailbox import MailDraft
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import MailKind, Status
from holdfast.model.time import HOUR
from holdfast.testing.conformance.harness import Backend
from holdfast.worker.worker import DRAIN_S, Worker
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)

_tokens = itertools.count(1)


@asynccontextmanager
async def working(shop: Shop, *, concurrency: int = 16, drain_s: float = DRAIN_S) -> AsyncIterator[Worker]:
    desk = shop.desk()
    token = lambda: f"claim-{next(_tokens)}"  # noqa: E731
    worker = Worker(desk, "worker-1", token, concurrency=concurrency, drain_s=drain_s)
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

        async def busy(drive: Execution, given: Any) -> Any:
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

        async def quick(_drive: Execution, given: Any) -> Any:
            return given

        shop.programs["quick"] = quick
        async with working(shop):
            assert await ended(shop, await shop.submit(quick, 1)) is Status.COMPLETED
            assert await ended(shop, await shop.submit(quick, 2)) is Status.COMPLETED


async def test_a_cancel_reaches_a_call_that_runs(backend: Backend) -> None:
    async with opened(backend) as shop:
        never = asyncio.get_running_loop().create_future()

        async def stuck(drive: Execution, _: Any) -> Any:
            return await shop.look(drive, "stuck", lambda: never)

        job_id = await shop.submit(stuck)
        async with working(shop):
            await shop.until("stuck")
            await shop.store.post.send(MailDraft(job_id=job_id, kind=MailKind.CANCEL, operation_id="op-1"))
            assert await ended(shop, job_id) is Status.CANCELLED
        assert never.cancelled()


async def test_a_drained_worker_holds_nothing(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def sleepy(drive: Execution, _: Any) -> Any:
            await sleep(drive, HOUR)

        job_id = await shop.submit(sleepy)
        async with working(shop):
            while (await shop.store.jobs.head(job_id)).status is not Status.WAITING:
                await shop.store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.02)
        head = await shop.store.jobs.head(job_id)
        assert (head.lease_token, head.lease_owner) == ("", "")


async def test_a_drained_worker_begins_no_new_call(backend: Backend) -> None:
    """What is under way comes to its end and is kept; the job is given back before the next call."""
    async with opened(backend) as shop:
        answers = {name: asyncio.get_running_loop().create_future() for name in ("left", "right")}

        async def both(drive: Execution, _: Any) -> Any:
            async def side(name: str) -> Any:
                await shop.look(drive, name, lambda: answers[name])
                return await shop.look(drive, f"more {name}")

            return await asyncio.gather(side("left"), side("right"))

        job_id = await shop.submit(both)
        async with working(shop):
            await shop.until("left")
            await shop.until("right")
            for name, answer in answers.items():  # once it has been told to stop
                asyncio.get_running_loop().call_soon(answer.set_result, name.upper())
        assert dict(shop.done) == {"left": 1, "right": 1}
        assert (await shop.events(job_id))[-1].type == "job_released"
        assert await shop.drive_all() == ["completed"]
        assert dict(shop.done) == {"left": 1, "right": 1, "more left": 1, "more right": 1}
        assert (await shop.job(job_id)).output == ["MORE LEFT", "MORE RIGHT"]


async def test_a_drain_has_an_end_but_not_in_the_middle_of_an_unsafe_call(backend: Backend) -> None:
    """A read that does not come back is cut off; a payment is waited for, since cut off it would need a person."""
    async with opened(backend) as shop:
        never, paid = (asyncio.get_running_loop().create_future() for _ in range(2))
        paying = asyncio.Event()

        async def stuck(drive: Execution, _: Any) -> Any:
            return await shop.look(drive, "stuck", lambda: never)

        async def buys(drive: Execution, _: Any) -> Any:
            async def pay(_key: str) -> Any:
                paying.set()
                return await paid

            await drive.call(DurableCall("pay", [], pay))
            return await shop.look(drive, "receipt")

        stuck_id, buys_id = await shop.submit(stuck), await shop.submit(buys)
        never.add_done_callback(lambda _: paid.set_result("paid"))
        async with working(shop, drain_s=0.01):
            await shop.until("stuck")
            await paying.wait()
        assert never.cancelled()
        assert (await shop.events(stuck_id))[-1].type == "job_released"
        assert [event.type for event in await shop.events(buys_id)][-2:] == ["tool_returned", "job_released"]
        assert await shop.store.ledger.list(buys_id, status=CallStatus.UNCERTAIN) == []
