"""Children: started once, waited for without a slot, found again after a crash, cancelled with their parent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.engine.children import spawn
from holdfast.engine.execution import Execution
from holdfast.engine.suspension import wait
from holdfast.errors import CallFailed
from holdfast.model.events import CallCancelled, ChildFinished, ChildStarted
from holdfast.model.jobs import JobDraft, JobFilter
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import MINUTE, SECOND
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)


def research(shop: Shop) -> None:
    """A child that looks something up, or waits for a word, or fails."""

    async def program(drive: Execution, given: Any) -> Any:
        if given == "waits":
            return await wait(drive, "go on")
        return await shop.look(drive, given)

    shop.programs["research"] = program


async def children(shop: Shop) -> dict[str, Status]:
    page = await shop.store.jobs.list(JobFilter(kind="research"))
    return {record.job_id: record.status for record in page.items}


async def test_a_child_runs_while_its_parent_holds_nothing(backend: Backend) -> None:
    async with opened(backend) as shop:
        research(shop)

        async def parent(drive: Execution, _: Any) -> Any:
            one = spawn(drive, JobDraft(kind="research", input="a"))
            other = spawn(drive, JobDraft(kind="research", input="b"))
            return await asyncio.gather(one, other)

        job_id = await shop.submit(parent)
        assert await (await shop.claim()).go() == "waiting"
        head = await shop.store.jobs.head(job_id)
        assert (head.wait_reason, head.lease_token) == (WaitReason.CHILD, "")
        await shop.drive_all()
        job = await shop.job(job_id)
        assert (job.status, job.output) == (Status.COMPLETED, ["A", "B"])
        assert shop.done == {"a": 1, "b": 1}
        assert list((await children(shop)).values()) == [Status.COMPLETED] * 2


async def test_a_parent_that_dies_finds_its_child_again(backend: Backend) -> None:
    """Goal: a child is never started twice. Method: the parent's worker is cut off while the child runs, twice."""
    async with opened(backend) as shop:
        research(shop)
        hanging = asyncio.get_running_loop().create_future()

        async def parent(drive: Execution, _: Any) -> Any:
            child = asyncio.ensure_future(spawn(drive, JobDraft(kind="research", input="waits")))
            await shop.look(drive, "hang", lambda: hanging if not hanging.done() else "now")
            return await child

        job_id = await shop.submit(parent)
        for worker in ("one", "two"):
            going = asyncio.create_task((await shop.claim(worker=worker, desk=shop.desk(strict=True))).go())
            await shop.until("hang")
            while not await children(shop):
                await shop.store.wakeups.wait(frozenset({"queue:none"}), 0.005)
            going.cancel()
            await asyncio.wait([going])
            backend.clock.advance(31 * SECOND)
        hanging.cancel()
        await shop.drive_all(worker="three")
        (child,) = await children(shop)
        await shop.tell(child, MailKind.SIGNAL, "found", name="go on")
        await shop.drive_all(worker="three")
        assert (await shop.job(job_id)).output == "found"
        events = await shop.events(job_id)
        assert sum(isinstance(event, ChildStarted) for event in events) == 1
        assert sum(isinstance(event, ChildFinished) for event in events) == 1


async def test_a_cancel_reaches_the_children(backend: Backend) -> None:
    async with opened(backend) as shop:
        research(shop)

        async def parent(drive: Execution, _: Any) -> Any:
            return await spawn(drive, JobDraft(kind="research", input="waits"))

        job_id = await shop.submit(parent)
        assert await shop.drive_all() == ["waiting", "waiting"]
        await shop.tell(job_id, MailKind.CANCEL, name="enough")
        await shop.drive_all()
        assert (await shop.job(job_id)).status is Status.CANCELLED
        assert list((await children(shop)).values()) == [Status.CANCELLED]


@pytest.mark.parametrize("gives_up", [False, True])
async def test_a_child_that_was_never_started_is_not_cancelled(backend: Backend, gives_up: bool) -> None:
    """Goal: a cancel that comes before the child does ends the parent at once. Method: the letter arrives while the
    parent runs; its append with the child in it, and perhaps with the word that it is given up, meets the letter."""
    async with opened(backend) as shop:
        research(shop)
        letters: list[str] = []

        async def parent(drive: Execution, _: Any) -> Any:
            await shop.look(drive, "first", lambda: asyncio.ensure_future(cancelled()))
            child = asyncio.ensure_future(spawn(drive, JobDraft(kind="research", input="waits")))
            await asyncio.sleep(0)
            if gives_up:
                child.cancel()
            return await child

        async def cancelled() -> None:
            await shop.tell(letters[0], MailKind.CANCEL, name="enough")

        letters.append(await shop.submit(parent))
        assert await (await shop.claim()).go() == "cancelled"
        assert await children(shop) == {}


async def test_a_child_that_is_given_up_before_it_starts_is_a_fact(backend: Backend) -> None:
    """Goal: a replay gives it up again. Method: nothing new may start beside a recovery, and the code does not wait for
    the end of it."""
    async with opened(backend) as shop:
        research(shop)

        async def parent(drive: Execution, _: Any) -> Any:
            with drive.recovering("another call"):
                child = asyncio.ensure_future(spawn(drive, JobDraft(kind="research", input="waits")))
                await asyncio.sleep(0)
                child.cancel()
                await asyncio.wait([child])
            return await wait(drive, "go on")

        job_id = await shop.submit(parent)
        assert await shop.drive_all() == ["waiting"]
        given_up = [event.step_key for event in await shop.events(job_id) if isinstance(event, CallCancelled)]
        assert given_up == ["0/spawn#1/spawn:research#1"]
        await shop.tell(job_id, MailKind.SIGNAL, "on", name="go on")
        assert await shop.drive_all() == ["completed"]
        assert await children(shop) == {}


async def test_code_that_gives_up_waiting_cancels_the_child(backend: Backend) -> None:
    """Method: a sibling fails, and `TaskGroup` cancels the wait for the child."""
    async with opened(backend) as shop:
        research(shop)

        async def parent(drive: Execution, _: Any) -> Any:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(spawn(drive, JobDraft(kind="research", input="waits")))
                    group.create_task(wait(drive, "never", MINUTE))
            except* TimeoutError:
                pass
            return await wait(drive, "the end")

        job_id = await shop.submit(parent)
        await shop.drive_all()
        backend.clock.advance(MINUTE)
        await shop.drive_all()
        assert list((await children(shop)).values()) == [Status.CANCELLED]
        await shop.tell(job_id, MailKind.SIGNAL, "over", name="the end")
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output == "over"


async def test_a_child_that_was_cancelled_is_an_error_of_its_parent(backend: Backend) -> None:
    async with opened(backend) as shop:
        research(shop)

        async def parent(drive: Execution, _: Any) -> Any:
            try:
                return await spawn(drive, JobDraft(kind="research", input="waits"))
            except CallFailed as error:
                return str(error)

        job_id = await shop.submit(parent)
        await shop.drive_all()
        (child,) = await children(shop)
        await shop.tell(child, MailKind.CANCEL, name="not needed")
        await shop.drive_all()
        assert (await shop.job(job_id)).output == "the child job was cancelled"
