"""Goal: a job that ends its worker's process is convicted, and no job beside it. Method: an application in which one
job exits, segfaults or is killed, under `holdfast up` and `holdfast worker`; the receiver's log is the witness."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable

import pytest

from holdfast.api.job_records import JobView
from holdfast.engine.host_processes import HostProcesses
from holdfast.model.states import Status, WaitReason
from holdfast.model.worker_identity import ProcessStatus
from holdfast.store.clock import SystemClock
from tests.kill.processes.stage import KILL, PATIENCE_S, Child, Stage
from tests.support.project import ROOT

pytestmark = pytest.mark.timeout(240)

APP = ROOT / "tests/kill/processes/suspect_app.py"
ALONE = r"runs alone, in process (\d+)"


async def submit_healthy(stage: Stage, count: int) -> list[str]:
    """Jobs that wait for the receiver in their first call."""
    items = [f"h{nth}" for nth in range(count)]
    stage.receiver.hold(*(f"look {item}" for item in items))
    for item in items:
        await stage.submit("healthy", item, item=item)
    return items


async def until(
    stage: Stage, job_id: str, seen: Callable[[JobView], bool], *, patience_s: float = 2 * PATIENCE_S
) -> JobView:
    try:
        async with asyncio.timeout(patience_s):
            while not seen(job := await stage.job(job_id)):  # noqa: ASYNC110 - a process of its own does it
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(await stage.report(job_id)) from None
    return job


async def until_convicted(stage: Stage, job_id: str) -> JobView:
    return await until(stage, job_id, lambda job: job.wait_reason is WaitReason.DEAD_LETTER)


async def check_healthy(stage: Stage, items: list[str]) -> None:
    """All jobs complete, and each effect happened once."""
    for item in items:
        assert await stage.completed(item, patience_s=3 * PATIENCE_S) == [
            f"look look {item}",
            f"pay pay {item}",
        ]
        assert "job_dead_lettered" not in await stage.types(item)
    assert stage.receiver.keys("pay") == {f"pay {item}": 1 for item in items}
    assert stage.receiver.counts("pay") == {f"pay {item}": 1 for item in items}


def pids_alone(worker: Child) -> list[int]:
    return [int(pid) for pid in re.findall(ALONE, worker.log)]


async def until_gone(pid: int) -> None:
    processes = HostProcesses(SystemClock().boot())
    async with asyncio.timeout(PATIENCE_S):
        while processes.look_up(pid) is not ProcessStatus.GONE:  # noqa: ASYNC110 - the kernel does it
            await asyncio.sleep(0.02)


async def test_a_job_that_exits_under_up_is_convicted_alone(stage: Stage) -> None:
    up = await stage.command("up", str(APP), "--port", "0")
    await up.wait_for_log("is up at")
    items = await submit_healthy(stage, 10)
    await stage.receiver.until_arrived(*(f"look {item}" for item in items))
    await stage.submit("crashes", "poison", item="poison", how="exit")
    await stage.receiver.until_arrived("poison", times=2)
    await stage.receiver.release()
    job = await until_convicted(stage, "poison")
    await check_healthy(stage, items)
    assert len(job.error) == 3, "two deaths among others, and one alone"
    assert job.error[-1]["why"] == "its process died while it ran alone: it ended with status 9"
    assert all(cause["at"] and cause["holder"] for cause in job.error)
    assert stage.receiver.count("poison") == 3
    shown = await stage.holdfast("job", "poison")
    assert "it ended with status 9" in shown
    trace = await stage.holdfast("trace", "poison")
    assert "in a process of its own" in trace
    await up.wait_for_log(r"job poison \(crashes\) is a dead letter: its process ended with status 9")


async def test_a_segfault_among_seven_is_convicted_alone(stage: Stage) -> None:
    """The worker is started anew after each death, as systemd would; a second death makes the job a suspect."""
    items = await submit_healthy(stage, 6)
    await stage.submit("crashes", "poison", item="poison", how="segfault")
    for _ in range(2):
        worker = await stage.worker(APP)
        assert await worker.over() == -11
    worker = await stage.worker(APP)
    await stage.receiver.release()
    job = await until_convicted(stage, "poison")
    assert job.error[-1]["why"] == "its process died while it ran alone: it was killed by SIGSEGV"
    await check_healthy(stage, items)
    await worker.wait_for_log(r"job poison \(crashes\) is a dead letter")
    await worker.wait_for_log(r"no longer a suspect")
    assert worker.process.returncode is None, "the worker lives on"


async def test_two_workers_convict_it_once(stage: Stage) -> None:
    await stage.submit("crashes", "poison", item="poison", how="exit")
    first, second = await stage.worker(APP), await stage.worker(APP)
    assert {await first.over(), await second.over()} == {9}
    third, fourth = await stage.worker(APP), await stage.worker(APP)
    items = await submit_healthy(stage, 3)
    await stage.receiver.release()
    await until_convicted(stage, "poison")
    await check_healthy(stage, items)
    assert (await stage.types("poison")).count("job_dead_lettered") == 1
    assert third.process.returncode is fourth.process.returncode is None


async def test_parent_and_child_that_die_together_convict_nobody(stage: Stage) -> None:
    """A healthy job loses worker after worker, among others and then alone: it is never a dead letter, and no child
    outlives its parent."""
    (item,) = await submit_healthy(stage, 1)
    for kills in range(1, 7):
        worker = await stage.worker(APP)
        await stage.receiver.until_arrived(f"look {item}", times=kills)
        alone = pids_alone(worker)
        assert len(alone) == (kills > 2)
        if kills % 2 and alone:  # the child falls first, and its parent has no time to look
            os.kill(worker.process.pid, signal.SIGSTOP)
            os.kill(alone[0], KILL)
        await worker.end(KILL)
        for pid in alone:
            await until_gone(pid)
    assert (await stage.job(item)).wait_reason is None
    await stage.worker(APP)
    await stage.receiver.release()
    await check_healthy(stage, [item])


async def test_a_drain_of_the_worker_drains_the_child(stage: Stage) -> None:
    (item,) = await submit_healthy(stage, 1)
    for kills in (1, 2):
        worker = await stage.worker(APP)
        await stage.receiver.until_arrived(f"look {item}", times=kills)
        await worker.end(KILL)
    worker = await stage.worker(APP)
    await worker.wait_for_log(ALONE)
    await stage.receiver.until_arrived(f"look {item}", times=3)
    worker.process.terminate()
    await worker.wait_for_log("stopping")
    worker.process.terminate()  # once more: given back at once
    assert await worker.over() == 0
    (pid,) = pids_alone(worker)
    await until_gone(pid)
    job = await stage.job(item)
    assert (job.status, job.wait_reason) == (Status.PENDING, None)
    assert (await stage.types(item))[-1] == "job_released"
    await stage.worker(APP)
    await stage.receiver.release()
    await check_healthy(stage, [item])


async def test_a_job_that_is_killed_alone_three_times_is_convicted(stage: Stage) -> None:
    """SIGKILL may come from an operator or from the kernel: one such death alone proves too little."""
    await stage.submit("crashes", "poison", item="poison", how="kill")
    for _ in range(2):
        worker = await stage.worker(APP)
        assert await worker.over() == -9
    worker = await stage.worker(APP)
    job = await until_convicted(stage, "poison")
    assert stage.receiver.count("poison") == 5
    assert len(job.error) == 5
    assert "was killed by SIGKILL" in job.error[-1]["why"]
    assert worker.process.returncode is None


@pytest.mark.parametrize("store", ["sqlite"])
async def test_a_suspect_without_a_worker_that_runs_it_alone_is_listed(stage: Stage) -> None:
    """The only worker is an application that cannot start its code anew. After a minute the list says what to type; the
    worker that is started then takes the job."""
    await stage.submit("crashes", "poison", item="poison", how="exit")
    for _ in range(2):
        child = await stage.script(app=APP)
        assert await child.over() == 9
    serving = await stage.script(app=APP)
    await serving.wait_for_log("serving")
    (stage.folder / "mended").touch()
    job = await until(stage, "poison", lambda job: bool(job.needs), patience_s=6 * PATIENCE_S)
    assert (job.status, job.takeovers, stage.receiver.count("poison")) == (Status.PENDING, 2, 2)
    assert serving.process.returncode is None
    assert "suspects" in await stage.holdfast("doctor")
    for command in (["jobs", "--person"], ["job", "poison"]):
        shown = re.sub(r"\s+", " ", await stage.holdfast(*command))
        assert (
            "Suspected of crashing its workers; waits for a worker that can run it in a process of its own"
            in shown
        )
        assert command[0] == "jobs" or "holdfast worker YOUR_MODULE --queue default" in shown
    await stage.worker(APP)
    assert await stage.completed("poison") == "poison"
    assert "suspected" not in await stage.holdfast("jobs", "--person")


async def test_a_suspect_that_was_mended_completes(stage: Stage) -> None:
    await stage.submit("crashes", "poison", item="poison", how="exit")
    for _ in range(2):
        worker = await stage.worker(APP)
        assert await worker.over() == 9
    (stage.folder / "mended").touch()
    await stage.worker(APP)
    assert await stage.completed("poison") == "poison"


async def test_a_suspect_with_a_letter_that_says_nothing_is_convicted(stage: Stage) -> None:
    """An approval that no call of the job has asked for becomes no event, as any letter that a job reads and dies with.
    It does not hold up the verdict; without a verdict one child process would follow another for ever."""
    await stage.submit("crashes", "poison", item="poison", how="exit")
    await stage.approve_nothing("poison")
    for _ in range(2):
        worker = await stage.worker(APP)
        assert await worker.over() == 9
    worker = await stage.worker(APP)
    job = await until_convicted(stage, "poison")
    assert len(job.error) == stage.receiver.count("poison") == 3
    assert worker.process.returncode is None


async def test_a_suspect_that_is_cancelled_while_it_runs_alone_is_cancelled(stage: Stage) -> None:
    """The word of a person comes first: it is unread when the child process dies."""
    await stage.submit("crashes", "poison", item="poison", how="exit")
    for _ in range(2):
        worker = await stage.worker(APP)
        assert await worker.over() == 9
    stage.receiver.hold("poison")
    worker = await stage.worker(APP)
    await worker.wait_for_log(ALONE)
    await stage.receiver.until_arrived("poison", times=3)
    (pid,) = pids_alone(worker)
    os.kill(pid, signal.SIGSTOP)
    await stage.cancel("poison")
    os.kill(pid, signal.SIGABRT)
    os.kill(pid, signal.SIGCONT)
    await until(stage, "poison", lambda job: job.status is Status.CANCELLED)
