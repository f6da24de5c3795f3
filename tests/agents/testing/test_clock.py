"""Time in tests: what sleeps is not waited for, and what works is not hurried."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import JobHeld
from holdfast.model.states import Status, WaitReason
from holdfast.store.clock import VirtualClock
from holdfast.testing import AppEnvironment, TimeSkippingClock, running

STORES = ["memory", "sqlite"]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'test.db'}"


@pytest.fixture
def app() -> hf.App:
    return hf.App(store="sqlite:////nowhere/at/all.db")


async def status_of(process: AppEnvironment, job: hf.Job[Any]) -> tuple[Status, WaitReason | None]:
    head = await process.store.jobs.head(job.id)
    return head.status, head.wait_reason


async def asleep(process: AppEnvironment, job: hf.Job[Any]) -> None:
    while (await status_of(process, job))[0] is not Status.WAITING:
        await process.store.wakeups.wait(frozenset({f"job:{job.id}"}), 0.01)


async def test_three_days_pass_at_once(app: hf.App, store: str) -> None:
    """The application's own store is not touched: there is none."""

    @app.agent
    async def remind(name: str) -> float:
        before = hf.now()
        await hf.sleep("3d")
        await asyncio.gather(hf.sleep("1h"), hf.sleep("2h"))
        return (hf.now() - before) / dt.timedelta(hours=1)

    async with asyncio.timeout(60), running(app, store=store):
        assert 74 <= await remind("Ada") < 74.1


async def test_a_timeout_of_days_passes_at_once(app: hf.App, store: str) -> None:
    @app.agent
    async def waits() -> str:
        try:
            return str(await hf.wait("paid", timeout="7d"))
        except TimeoutError:
            return "nobody paid"

    async with asyncio.timeout(60), running(app, store=store):
        assert await waits() == "nobody paid"


async def test_time_stands_until_somebody_waits(app: hf.App, store: str) -> None:
    """Nobody waits for the result: the job sleeps on, and there is time to send it a signal."""

    @app.agent
    async def waits() -> str:
        return str(await hf.wait("paid", timeout="7d"))

    async with asyncio.timeout(60), running(app, store=store) as process:
        job = await waits.start()
        await asleep(process, job)
        before = process.clock.wall_us()
        await job.signal("paid", "100")
        assert await job.result() == "100"
        assert process.clock.wall_us() - before < 60_000_000


async def test_time_is_moved_by_hand(app: hf.App, store: str) -> None:
    @app.agent
    async def sleeps() -> str:
        await hf.sleep("1h")
        return "slept"

    async with asyncio.timeout(60), running(app, store=store) as process:
        job = await sleeps.start()
        await asleep(process, job)
        process.clock.advance("59m")
        assert await status_of(process, job) == (Status.WAITING, WaitReason.TIMER)
        process.clock.advance("2m")
        while (await status_of(process, job))[0] is not Status.COMPLETED:
            await process.store.wakeups.wait(frozenset({f"job:{job.id}"}), 0.01)


async def test_nothing_runs_out_under_one_who_works(app: hf.App, store: str) -> None:
    """One job sleeps for days while another works: the one that works keeps its lease, and its call is made once."""
    calls: list[str] = []
    go_on = asyncio.Event()

    @app.tool
    async def work() -> str:
        calls.append("work")
        await go_on.wait()
        return "worked"

    @app.agent
    async def works() -> str:
        return await work()

    @app.agent
    async def sleeps() -> str:
        await hf.sleep("3d")
        return "slept"

    async with asyncio.timeout(60), running(app, store=store) as process:
        working = await works.start()
        sleeping = await sleeps.start()
        await asleep(process, sleeping)
        before = process.clock.wall_us()
        slept = asyncio.ensure_future(sleeping.result())
        while not calls:
            await process.store.wakeups.wait(frozenset({f"job:{working.id}"}), 0.01)
        assert process.clock.wall_us() - before < 60_000_000, "time waits for those who work"
        go_on.set()
        assert await working.result() == "worked"
        assert await slept == "slept"
    assert calls == ["work"]


async def test_no_leap_answers_for_a_person(app: hf.App) -> None:
    """An approval lasts seven days; they do not pass because somebody waits for the result."""

    @app.tool(approve=True)
    async def pay() -> str:
        return "paid"

    @app.agent
    async def pays() -> str:
        return await pay()

    @app.agent
    async def fails() -> str:
        raise ValueError("no")

    async with asyncio.timeout(60), running(app) as process:
        job = await pays.start()
        waiting = asyncio.ensure_future(job.result())
        await asleep(process, job)
        with pytest.raises(JobHeld):  # and its three attempts, with the pauses between them, take no time
            await fails()
        assert await status_of(process, job) == (Status.WAITING, WaitReason.APPROVAL)
        waiting.cancel()


async def test_afterwards_the_application_is_as_before(tmp_path: Path) -> None:
    app = hf.App(store=f"sqlite:///{tmp_path / 'own.db'}")

    @app.agent
    async def twice(number: int) -> int:
        return 2 * number

    async with app.running():
        assert await twice(1) == 2
        async with running(app) as process:
            assert await twice(2) == 4
            assert await app.host() is process
        assert await twice(3) == 6
        assert await app.host() is not process


def test_a_leaping_clock() -> None:
    base = VirtualClock()
    clock = TimeSkippingClock(base)
    before = clock.wall_us(), clock.tick_us()
    leaps: list[int] = []
    clock.on_skip = lambda: leaps.append(clock.wall_us())
    clock.advance("90s")
    base.advance(1)
    assert (clock.wall_us() - before[0], clock.tick_us() - before[1]) == (90_000_001, 90_000_001)
    assert leaps == [before[0] + 90_000_000]
    assert clock.boot() == base.boot()
