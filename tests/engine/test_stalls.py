"""Stall detector: code that waits for what cannot come is reported with its lines, then held; code that waits for
something is left alone. In virtual time, on the memory store."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.engine import stall_detector
from holdfast.engine.execution import Execution
from holdfast.engine.job_results import wait_for_result
from holdfast.engine.runner_config import Program
from holdfast.engine.suspension import sleep, wait
from holdfast.errors import JobHeld
from holdfast.model.events import JobStalled
from holdfast.model.ids import SequentialIds
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import HOUR, SECOND
from holdfast.store.memory.store import MemoryStore
from holdfast.testing.conformance.harness import Backend
from holdfast.testing.virtual_loop import LoopClock, SimLoop
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.store("memory")


def in_virtual_time(test: Callable[[Shop], Coroutine[Any, Any, None]]) -> None:
    """The test, in a shop whose clock moves only while everybody waits."""
    with SimLoop() as loop:
        clock: Any = LoopClock(loop)
        loop.run_until_complete(test(Shop(MemoryStore(clock, SequentialIds()), clock)))


async def drive_once(shop: Shop, program: Program) -> tuple[str, str]:
    job_id = await shop.submit(program)
    return job_id, await (await shop.claim(ttl_us=HOUR)).go()


async def report_of(shop: Shop, job_id: str) -> dict[str, Any]:
    (stalled,) = [event for event in await shop.events(job_id) if isinstance(event, JobStalled)]
    head = await shop.store.jobs.head(job_id)
    assert (head.status, head.wait_reason) == (Status.WAITING, WaitReason.STALLED)
    report: dict[str, Any] = stalled.report
    return report


async def wait_for_nothing() -> None:
    await asyncio.get_running_loop().create_future()


def line_of_nothing() -> str:
    return f"{__file__}:{wait_for_nothing.__code__.co_firstlineno + 1} in wait_for_nothing"


# ── reported and held ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_a_future_that_never_comes_is_reported_and_then_held(
    caplog: pytest.LogCaptureFixture, looks: int
) -> None:
    """Goal: the log names file and line within two minutes, and the job is held within eleven. Method: an agent that
    makes some calls and then awaits a bare future; the log is read while it waits."""

    async def test(shop: Shop) -> None:
        async def forgetful(drive: Execution, _: Any) -> None:
            for nth in range(looks):
                await shop.look(drive, f"page {nth}")
            await wait_for_nothing()

        loop = asyncio.get_running_loop()
        job_id = await shop.submit(forgetful)
        run = await shop.claim(ttl_us=HOUR)
        going = asyncio.create_task(run.go())
        await asyncio.sleep(59)
        assert not caplog.records, "a minute is nothing"
        await asyncio.sleep(62)
        (said,) = [record.getMessage() for record in caplog.records if record.name == "holdfast.stall"]
        assert f"job {job_id} makes no progress" in said
        assert line_of_nothing() in said
        assert (await shop.store.jobs.head(job_id)).status is Status.RUNNING
        assert await going == "waiting"
        assert 600 <= loop.time() <= 661
        assert len(caplog.records) == 1, "it is said once"
        report = await report_of(shop, job_id)
        assert "not durable" in report["why"]
        assert report["tasks"][-1]["stack"][-1] == line_of_nothing()
        with pytest.raises(JobHeld, match=r"makes no progress, and the job is held: .*wait_for_nothing"):
            await wait_for_result(shop.store, job_id)

    with caplog.at_level(logging.WARNING, logger="holdfast.stall"):
        in_virtual_time(test)


def test_tasks_that_wait_for_each_other_are_held() -> None:
    """Goal: a deadlock inside a job is named as one. Method: two tasks take two locks in opposite order."""

    async def test(shop: Shop) -> None:
        async def deadlocked(drive: Execution, _: Any) -> None:
            first, second = asyncio.Lock(), asyncio.Lock()

            async def take(one: asyncio.Lock, other: asyncio.Lock, page: str) -> None:
                async with one:
                    await shop.look(drive, page)
                    async with other:
                        raise AssertionError("unreachable")

            await asyncio.gather(take(first, second, "a"), take(second, first, "b"))

        job_id, end = await drive_once(shop, deadlocked)
        assert end == "waiting"
        report = await report_of(shop, job_id)
        assert report["why"] == "its tasks wait for each other"
        assert sum("in take" in line for task in report["tasks"] for line in task["stack"]) == 2

    in_virtual_time(test)


def test_polling_for_what_never_comes_is_reported_as_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: code that only yields is found out. Method: `sleep(0)` until a flag that nobody sets; in a moment of real
    time, because polling code never lets a virtual clock move."""
    shorten(monkeypatch)

    async def test() -> None:
        shop = real_shop()

        async def polling(_drive: Execution, _: Any) -> None:
            flag = asyncio.Event()
            while not flag.is_set():  # noqa: ASYNC110 - what people write
                await asyncio.sleep(0)

        job_id, end = await drive_once(shop, polling)
        assert end == "waiting"
        report = await report_of(shop, job_id)
        assert report["why"] == "its code polls for something that does not come"
        assert "in polling" in report["tasks"][0]["stack"][0]

    asyncio.run(test())


# ── left alone ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("backend", STORES, indirect=True)
@pytest.mark.store(*STORES)
async def test_a_lock_whose_owner_waits_for_a_signal_is_no_stall(backend: Backend) -> None:
    """Goal: to wait for another task of the job is to wait for what that task waits for. Method: one task holds a lock
    and waits for a signal, the other wants the lock; the job sleeps, and the signal lets both go on."""
    async with opened(backend) as shop:

        async def locked(drive: Execution, _: Any) -> list[str]:
            lock, order = asyncio.Lock(), []

            async def take(name: str, *, waits: bool) -> None:
                async with lock:
                    if waits:
                        await wait(drive, "go on")
                    order.append(name)

            await asyncio.gather(take("owner", waits=True), take("other", waits=False))
            return order

        job_id, end = await drive_once(shop, locked)
        assert end == "waiting"
        assert (await shop.store.jobs.head(job_id)).wait_reason is WaitReason.SIGNAL
        await shop.tell(job_id, MailKind.SIGNAL, name="go on")
        assert await shop.drive_all() == ["completed"]
        assert await wait_for_result(shop.store, job_id) == ["owner", "other"]


def test_timers_calls_and_progress_are_no_stall(caplog: pytest.LogCaptureFixture) -> None:
    """Goal: nobody who waits for something is accused. Method: ten minutes and more in a call, in short sleeps beside a
    future, and in foreign waits that end in time."""

    async def test(shop: Shop) -> None:
        async def patient(drive: Execution, _: Any) -> str:
            await shop.look(drive, "slow", lambda: answer_from_outside(900))
            ticking = asyncio.create_task(wait_for_nothing())
            for _nth in range(30):
                await asyncio.sleep(30)
            ticking.cancel()
            for nth in range(20):
                await shop.look(drive, f"page {nth}")
                await answer_from_outside(50)
            await sleep(drive, 30 * SECOND)
            return "done"

        job_id = await shop.submit(patient)
        ends = []
        while (await shop.store.jobs.head(job_id)).status is not Status.COMPLETED:
            ends.append(await (await shop.claim(ttl_us=HOUR)).go())
            await asyncio.sleep(30)
        assert JobStalled.type not in {event.type for event in await shop.events(job_id)}
        assert ends[-1] == "completed"

    with caplog.at_level(logging.WARNING, logger="holdfast.stall"):
        in_virtual_time(test)
    assert not caplog.records


def answer_from_outside(seconds: float) -> asyncio.Future[str]:
    """A future that something outside of the job sets after so long, as a socket would."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[str] = loop.create_future()
    loop.call_later(seconds, future.set_result, "answer", context=contextvars.Context())
    return future


def test_a_thread_that_works_is_no_stall(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: `asyncio.to_thread` may take as long as it takes. Method: a thread that works for ten times as long as a
    stalled job may stand."""
    shorten(monkeypatch)

    async def test() -> None:
        shop = real_shop()

        async def threaded(_drive: Execution, _: Any) -> str:
            await asyncio.to_thread(threading.Event().wait, 0.5)
            return "done"

        job_id, end = await drive_once(shop, threaded)
        assert (end, await wait_for_result(shop.store, job_id)) == ("completed", "done")

    with caplog.at_level(logging.WARNING, logger="holdfast.stall"):
        asyncio.run(test())
    assert not caplog.records


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes ten minutes takes a twentieth of a second."""
    for name, seconds in (("LOOK_EVERY_S", 0.01), ("REPORT_AFTER_S", 0.01), ("HOLD_AFTER_S", 0.05)):
        monkeypatch.setattr(stall_detector, name, seconds)


def real_shop() -> Shop:
    clock: Any = LoopClock(asyncio.get_running_loop())
    return Shop(MemoryStore(clock, SequentialIds()), clock)
