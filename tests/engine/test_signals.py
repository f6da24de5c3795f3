"""Signals and waits: kept before anybody waits, taken once, in order; a wait holds no slot and may run out of time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.engine.execution import Execution
from holdfast.engine.suspension import wait
from holdfast.model.events import SignalTaken
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import HOUR
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)


@pytest.mark.parametrize("when", ["before", "asleep", "running"])
async def test_a_signal_reaches_the_wait_whenever_it_comes(backend: Backend, when: str) -> None:
    """Goal: no signal is lost. Method: it is sent before the job is claimed, while the job sleeps, and while the wait
    is open beside a step that runs."""
    async with opened(backend) as shop:
        released = asyncio.get_running_loop().create_future()

        async def paid(drive: Execution, _: Any) -> Any:
            if when != "running":
                return [await wait(drive, "paid")]
            return await asyncio.gather(wait(drive, "paid"), shop.look(drive, "busy", lambda: released))

        job_id = await shop.submit(paid)
        if when == "before":
            await shop.tell(job_id, MailKind.SIGNAL, {"euros": 5}, name="paid")
            assert await shop.drive_all() == ["completed"]
        elif when == "asleep":
            assert await shop.drive_all() == ["waiting"]
            head = await shop.store.jobs.head(job_id)
            assert (head.wait_reason, head.lease_token) == (WaitReason.SIGNAL, "")
            await shop.tell(job_id, MailKind.SIGNAL, {"euros": 5}, name="paid")
            assert await shop.drive_all() == ["completed"]
        else:
            run = await shop.claim()
            going = asyncio.create_task(run.go())
            await shop.until("busy")
            await shop.tell(job_id, MailKind.SIGNAL, {"euros": 5}, name="paid")
            run.poke()
            released.set_result("done")
            assert [await going, *await shop.drive_all()][-1] == "completed"
        assert (await shop.job(job_id)).output[0] == {"euros": 5}


async def test_a_signal_that_comes_while_the_run_is_being_ended_is_not_slept_over(backend: Backend) -> None:
    """Method: the run is about to sleep, and its code takes a while to let go; the signal is read in that while."""
    async with opened(backend) as shop:
        letting_go, let_go = asyncio.Event(), asyncio.Event()

        async def slow(drive: Execution, _: Any) -> Any:
            try:
                return await wait(drive, "paid")
            finally:
                letting_go.set()
                await let_go.wait()

        job_id = await shop.submit(slow)
        run = await shop.claim()
        going = asyncio.create_task(run.go())
        await letting_go.wait()
        await shop.tell(job_id, MailKind.SIGNAL, 5, name="paid")
        run.poke()
        while run._writer.mail_seen == 0:
            await shop.store.wakeups.wait(frozenset({"queue:none"}), 0.005)
        let_go.set()
        assert await going == "pending"
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output == 5


async def test_signals_of_one_name_are_taken_in_their_order_once(backend: Backend) -> None:
    """Method: two are sent before the first wait and one later; every wait takes another, and a replay the same."""
    async with opened(backend) as shop:

        async def three(drive: Execution, _: Any) -> Any:
            return [
                await wait(drive, "next"),
                *await asyncio.gather(wait(drive, "next"), wait(drive, "next")),
            ]

        job_id = await shop.submit(three)
        for body in (1, 2):
            await shop.tell(job_id, MailKind.SIGNAL, body, name="next")
        await shop.tell(job_id, MailKind.SIGNAL, "other", name="somebody else's")
        assert await shop.drive_all() == ["waiting"]
        await shop.tell(job_id, MailKind.SIGNAL, 3, name="next")
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output == [1, 2, 3]
        taken = [event.mail_seq for event in await shop.events(job_id) if isinstance(event, SignalTaken)]
        assert taken == [1, 2, 4]


async def test_a_wait_ends_when_its_time_is_up(backend: Backend) -> None:
    """Goal: the time counts from the first time the code came there. Method: an unwanted signal wakes the job
    half-way."""
    async with opened(backend) as shop:

        async def hopeful(drive: Execution, _: Any) -> Any:
            try:
                return await wait(drive, "paid", HOUR)
            except TimeoutError as error:
                return f"gave up: {error}"

        job_id = await shop.submit(hopeful)
        assert await shop.drive_all() == ["waiting"]
        due = (await shop.store.jobs.head(job_id)).wake_at
        backend.clock.advance(HOUR // 2)
        await shop.tell(job_id, MailKind.SIGNAL, name="hello")
        assert await shop.drive_all() == ["waiting"]
        assert (await shop.store.jobs.head(job_id)).wake_at == due
        backend.clock.advance(HOUR // 2)
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output == "gave up: no signal 'paid' in time"
        assert await shop.store.post.timers(job_id) == []


async def test_a_signal_for_a_finished_job_is_not_accepted(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def quick(_drive: Execution, _: Any) -> Any:
            return "done"

        job_id = await shop.submit(quick)
        assert await shop.drive_all() == ["completed"]
        assert not (await shop.tell(job_id, MailKind.SIGNAL, name="late")).accepted
        assert (await shop.job(job_id)).status is Status.COMPLETED


async def test_a_run_that_has_ended_looks_for_no_mail(backend: Backend) -> None:
    """The hint that a job has ended is for those who wait for it; its own run hears it as well."""
    async with opened(backend) as shop:

        async def quick(drive: Execution, _: Any) -> Any:
            return await shop.look(drive, "once")

        await shop.submit(quick)
        run = await shop.claim()
        assert await run.go() == "completed"
        run.poke()
        assert run._reading is None
