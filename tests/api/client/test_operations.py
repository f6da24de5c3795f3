"""Schedules, queues, namespaces and numbers as an outsider sets them, over a store and over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.client.registering import COUNTED
from holdfast.errors import Busy, Conflict, InvalidName, InvalidPayload, NotFound
from holdfast.model.budget import Budget
from holdfast.model.jobs import JobDraft
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.schedule import CatchUp, Schedule
from holdfast.model.time import HOUR, MINUTE
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import CLIENTS, lives

pytestmark = pytest.mark.parametrize("backend", CLIENTS, indirect=True)


async def test_a_schedule_is_created_once_and_stands_from_its_next_instant(backend: Backend) -> None:
    async with lives(backend) as one:
        client = one.client
        asked: dict[str, Any] = {"input": {"word": "kelp"}, "catch_up": CatchUp.ONE, "priority": 7}
        made = await client.create_schedule("report", "reports", "0 * * * *", **asked)
        assert (made.kind, made.cron, made.catch_up, made.priority) == ("reports", "0 * * * *", "one", 7)
        now = one.clock.wall_us()
        assert (made.next_at > now, made.next_at % HOUR, made.input) == (True, 0, {"word": "kelp"})
        one.clock.advance(3 * HOUR)
        assert await client.create_schedule("report", "reports", "0 * * * *", **asked) == made
        assert await client.get_schedule("report") == made
        for other in (
            {**asked, "input": None},
            {**asked, "queue": "slow"},
            {**asked, "time_zone": "Europe/Rome"},
        ):
            with pytest.raises(Conflict):
                await client.create_schedule("report", "reports", "0 * * * *", **other)
        assert (await client.list_schedules()).items == (made,)


async def test_what_code_declared_is_the_same_schedule(backend: Backend) -> None:
    """The budget and the Python that an application added are no difference."""
    async with lives(backend) as one:
        stood = await one.store.schedules.put(
            Schedule(
                schedule_id="report",
                kind="reports",
                cron="0 * * * *",
                next_at=one.clock.wall_us() + HOUR,
                budget=Budget(usd=1),
                python_version="3.11",
            )
        )
        assert await one.client.create_schedule("report", "reports", "0 * * * *") == stood


async def test_a_schedule_is_paused_resumed_and_removed(backend: Backend) -> None:
    async with lives(backend) as one:
        client = one.client
        made = await client.create_schedule("a/b", "reports", "* * * * *")
        for _ in range(2):
            assert (await client.pause_schedule("a/b")).paused
        one.clock.advance(10 * MINUTE)
        resumed = await client.resume_schedule("a/b")
        assert (resumed.paused, resumed.next_at > made.next_at + 9 * MINUTE) == (False, True)
        assert await client.remove_schedule("a/b") == resumed
        for word in (
            client.get_schedule,
            client.pause_schedule,
            client.resume_schedule,
            client.remove_schedule,
        ):
            with pytest.raises(NotFound):
                await word("a/b")


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"cron": "every day"}, InvalidPayload),
        ({"cron": "* * * * * *"}, InvalidPayload),
        ({"cron": "0 0 31 2 *"}, InvalidPayload),
        ({"time_zone": "Mars/Olympus"}, InvalidPayload),
        ({"schedule_id": ""}, InvalidName),
        ({"kind": "\x00"}, InvalidName),
        ({"priority": 11}, InvalidPayload),
    ],
)
async def test_a_schedule_that_makes_no_sense_leaves_nothing(
    backend: Backend, wrong: dict[str, Any], error: type[Exception]
) -> None:
    async with lives(backend) as one:
        right: dict[str, Any] = {"schedule_id": "s", "kind": "k", "cron": "* * * * *"}
        with pytest.raises(error):
            await one.client.create_schedule(**(right | wrong))
        assert (await one.client.list_schedules()).items == ()


async def test_schedules_come_in_pages(backend: Backend) -> None:
    async with lives(backend) as one:
        for name in ("c", "a", "b"):
            await one.client.create_schedule(name, "k", "* * * * *")
        first = await one.client.list_schedules(limit=2)
        second = await one.client.list_schedules(limit=2, cursor=first.next)
        assert [one.schedule_id for one in (*first, *second)] == ["a", "b", "c"]


async def test_a_queue_has_the_limits_that_were_said_last(backend: Backend) -> None:
    async with lives(backend) as one:
        client = one.client
        assert await client.list_queues() == ()
        limits = QueueLimits(queue="default", depth_max=1, age_max_us=MINUTE)
        assert await client.limit_queue("default", depth_max=1, age_max_us=MINUTE) == limits
        assert await client.list_queues() == (limits,)
        await client.submit("k")
        with pytest.raises(Busy):
            await client.submit("k")
        assert await client.limit_queue("default") == QueueLimits(queue="default")
        assert await client.list_queues() == ()
        await client.submit("k")
        with pytest.raises(InvalidPayload):
            await client.limit_queue("default", depth_max=-1)
        with pytest.raises(InvalidName):
            await client.limit_queue("\x1b", depth_max=1)


async def test_namespaces_are_made_once(backend: Backend) -> None:
    async with lives(backend) as one:
        made = await one.client.create_namespace("tests")
        assert (made.namespace, made.created_at) == ("tests", one.clock.wall_us())
        one.clock.advance(1)
        assert await one.client.create_namespace("tests") == made
        assert [one.namespace for one in await one.client.list_namespaces()] == ["default", "tests"]
        with pytest.raises(InvalidName):
            await one.client.create_namespace("\n")


async def test_numbers_are_exact(backend: Backend) -> None:
    """Of this namespace, by status; and nothing of others."""
    async with lives(backend) as one:
        await one.store.namespaces.create("other")
        nothing = dict.fromkeys(COUNTED, 0)
        assert (await one.client.stats()).totals == {"jobs": 0} | nothing
        await one.dead()
        await one.finished()
        await one.store.jobs.submit(JobDraft(kind="k", namespace="other"))
        for _ in range(3):
            await one.submit(one.nap)
        stats = await one.client.stats()
        assert stats.totals == {"jobs": 5, "pending": 3, "waiting": 1, "completed": 1} | nothing
        assert stats.by_project == {}
        await one.client.submit_work("x", "dig", project_id="hill")
        await one.client.submit_work("y", "dig")
        await one.client.register_agent("ant", "t", project_id="hill")
        stats = await one.client.stats()
        assert stats.by_project == {
            "hill": nothing | {"agents": 1, "pendingWork": 1},
            "default": nothing | {"pendingWork": 1},
        }
        assert stats.totals == {"jobs": 7, "pending": 5, "waiting": 1, "completed": 1} | nothing | {
            "agents": 1,
            "pendingWork": 2,
        }
