"""One claim of one job, on every store: how it ends, and what the next claim finds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.engine.durable_call import DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.suspension import sleep
from holdfast.model.events import JobDeadLettered, JobParked, JobRequeued, StepFinished
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import HOUR, MINUTE, SECOND
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)


async def test_a_job_runs_to_its_end(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def greet(drive: Execution, given: Any) -> Any:
            return [given, await shop.look(drive, "a"), await shop.look(drive, "b")]

        job_id = await shop.submit(greet, "hello")
        assert await (await shop.claim()).go() == "completed"
        job = await shop.job(job_id)
        assert (job.status, job.output) == (Status.COMPLETED, ["hello", "A", "B"])


async def test_a_finished_step_is_not_run_again_elsewhere(backend: Backend) -> None:
    """Goal: a kill loses nothing that was recorded. Method: the first worker hangs in its second step and is cut off;
    when its lease is over another one goes on."""
    async with opened(backend) as shop:
        hanging = asyncio.get_running_loop().create_future()

        async def two(drive: Execution, _: Any) -> Any:
            first = await shop.look(drive, "first")
            return [first, await shop.look(drive, "second", lambda: hanging if not hanging.done() else "now")]

        job_id = await shop.submit(two)
        run = await shop.claim(worker="one", desk=shop.desk(strict=True))
        going = asyncio.create_task(run.go())
        await shop.until("second")
        going.cancel()
        await asyncio.wait([going])
        hanging.cancel()
        backend.clock.advance(31 * SECOND)
        assert await (await shop.claim(worker="two")).go() == "completed"
        assert shop.done == {"first": 1, "second": 2}
        assert (await shop.job(job_id)).output == ["FIRST", "now"]


async def test_a_worker_that_lost_its_job_writes_nothing(backend: Backend) -> None:
    async with opened(backend) as shop:
        waiting = asyncio.get_running_loop().create_future()

        async def slow(drive: Execution, _: Any) -> Any:
            return await shop.look(drive, "slow", lambda: waiting if not waiting.done() else "quick")

        job_id = await shop.submit(slow)
        frozen = asyncio.create_task((await shop.claim(worker="one")).go())
        await shop.until("slow")
        backend.clock.advance(31 * SECOND)
        other = await shop.claim(worker="two")
        waiting.set_result("late")
        assert await frozen == "lost"
        assert not [event for event in await shop.events(job_id) if isinstance(event, StepFinished)]
        assert await other.go() == "completed"
        assert (await shop.job(job_id)).output == "quick"


async def test_a_failure_is_tried_again_and_ends_with_the_dead(backend: Backend) -> None:
    """Goal: a failure that left the function is retried, one that was caught is not. Method: a step that fails always,
    behind one that fails and is caught."""
    async with opened(backend) as shop:

        def fails() -> Any:
            raise LookupError("no such page")

        async def hopeless(drive: Execution, _: Any) -> Any:
            try:
                await shop.look(drive, "caught", fails)
            except LookupError:
                await shop.look(drive, "instead")
            await shop.look(drive, "fatal", fails)

        job_id = await shop.submit(hopeless)
        ends = []
        for _ in range(3):
            ends.append(await (await shop.claim()).go())
            backend.clock.advance(MINUTE)
        assert ends == ["pending", "pending", "waiting"]
        assert shop.done == {"caught": 1, "instead": 1, "fatal": 3}
        head = await shop.store.jobs.head(job_id)
        assert (head.status, head.wait_reason, head.attempts) == (Status.WAITING, WaitReason.DEAD_LETTER, 3)
        events = await shop.events(job_id)
        assert [event.rerun for event in events if isinstance(event, JobRequeued)] == [("0/look#3",)] * 2
        (dead,) = [event for event in events if isinstance(event, JobDeadLettered)]
        error = dead.causes[0]["error"]
        assert (error["type"], error["message"]) == ("LookupError", "no such page")
        assert [frame["code"] for frame in error["traceback"]][-1].startswith("raise LookupError")


async def test_a_retry_that_works(backend: Backend) -> None:
    async with opened(backend) as shop:
        answers = iter([LookupError("not yet"), "found"])

        def sometimes() -> Any:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        async def hopeful(drive: Execution, _: Any) -> Any:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(shop.look(drive, "flaky", sometimes))
                group.create_task(shop.look(drive, "steady"))
            return task.result()

        job_id = await shop.submit(hopeful)
        assert await (await shop.claim()).go() == "pending"
        backend.clock.advance(MINUTE)
        assert await (await shop.claim()).go() == "completed"
        assert (await shop.job(job_id)).output == "found"
        assert shop.done["flaky"] == 2


async def test_a_sleeping_job_is_nobodys(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def patient(drive: Execution, _: Any) -> Any:
            first = await shop.look(drive, "before")
            await asyncio.gather(sleep(drive, HOUR), sleep(drive, 2 * HOUR))
            return [first, await shop.look(drive, "after")]

        job_id = await shop.submit(patient)
        start = backend.clock.wall_us()
        assert await (await shop.claim()).go() == "waiting"
        head = await shop.store.jobs.head(job_id)
        assert (head.wait_reason, head.wake_at, head.lease_token) == (WaitReason.TIMER, start + HOUR, "")
        assert await shop.claim_all() == []
        backend.clock.advance(HOUR)
        assert await (await shop.claim()).go() == "waiting"
        assert (await shop.store.jobs.head(job_id)).wake_at == start + 2 * HOUR
        backend.clock.advance(HOUR)
        assert await (await shop.claim()).go() == "completed"
        assert shop.done == {"before": 1, "after": 1}
        assert await shop.store.post.timers(job_id) == []


@pytest.mark.parametrize("when", ["before", "during"])
async def test_a_cancelled_job_ends_cancelled(backend: Backend, when: str) -> None:
    """Goal: no new effect after an accepted cancel. Method: the cancel arrives before the claim, or while a step runs
    whose next is an effect."""
    async with opened(backend) as shop:
        released = asyncio.get_running_loop().create_future()

        async def doomed(drive: Execution, _: Any) -> Any:
            await shop.look(drive, "look", lambda: released)
            await drive.call(DurableCall("mail", [], _never_called))

        job_id = await shop.submit(doomed)
        letter = MailDraft(
            job_id=job_id, kind=MailKind.CANCEL, operation_id="op-1", sender="ada", name="enough"
        )
        if when == "before":
            await shop.store.post.send(letter)
            assert await (await shop.claim()).go() == "cancelled"
            assert not shop.done
        else:
            going = asyncio.create_task((await shop.claim()).go())
            await shop.until("look")
            await shop.store.post.send(letter)
            released.set_result("seen")
            assert await going == "cancelled"
        job = await shop.job(job_id)
        assert (job.status, job.calls, job.cancel_requested) == (Status.CANCELLED, {}, True)


async def _never_called(_key: str) -> Any:
    raise AssertionError("an effect after the cancel")


async def test_changed_code_is_parked(backend: Backend) -> None:
    async with opened(backend) as shop:
        sent = []

        async def mail(_key: str) -> Any:
            sent.append("mail")
            return "receipt"

        async def first(drive: Execution, _: Any) -> Any:
            await drive.call(DurableCall("send_mail", ["hello"], mail))
            await sleep(drive, HOUR)

        async def renamed(drive: Execution, _: Any) -> Any:
            await drive.call(DurableCall("post_mail", ["hello"], mail))

        job_id = await shop.submit(first)
        assert await (await shop.claim()).go() == "waiting"
        shop.programs["first"] = renamed
        backend.clock.advance(HOUR)
        assert await (await shop.claim()).go() == "waiting"
        assert sent == ["mail"]
        assert (await shop.store.jobs.head(job_id)).wait_reason is WaitReason.DRIFT
        (parked,) = [event for event in await shop.events(job_id) if isinstance(event, JobParked)]
        assert parked.report["attempted"]["step_key"] == "0/post_mail#1"


async def test_many_jobs_share_their_trips(backend: Backend) -> None:
    """Goal: jobs of one process go to the disk together. Method: count the store's own calls."""
    async with opened(backend) as shop:

        async def five(drive: Execution, given: Any) -> Any:
            return [await shop.look(drive, f"{given}.{n}") for n in range(5)]

        ids = [await shop.submit(five, n) for n in range(40)]
        trips = 0
        append_many = shop.store.journal.append_many

        async def counted(appends: Any) -> Any:
            nonlocal trips
            trips += 1
            return await append_many(appends)

        desk = shop.desk(strict=True)
        desk.committer._journal = _Counting(counted)  # type: ignore[assignment]
        runs = await shop.claim_all(desk=desk)
        ends = await asyncio.gather(*(run.go() for run in runs))
        assert ends == ["completed"] * 40
        assert trips <= 20, f"{trips} trips for 240 facts of 40 jobs"
        assert {(await shop.job(job_id)).status for job_id in ids} == {Status.COMPLETED}


class _Counting:
    is_near = False

    def __init__(self, append_many: Any) -> None:
        self.append_many = append_many
