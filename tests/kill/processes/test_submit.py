"""Goal: submitting is not working, and what an App declares holds under every way to run it, seen from outside. Method:
scripts and workers as processes of their own over one store; what was done is in the receiver's own log, and who
claimed what is in the journals."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.states import Status
from tests.kill.processes.receiver import Receiver
from tests.kill.processes.stage import KILL, Child, Stage, blocked_writes
from tests.support.project import ROOT

pytestmark = pytest.mark.timeout(180)

SUBMITTING = ROOT / "tests/kill/processes/submit_app.py"
A_WHILE_S = 3.0
"""Longer than any worker waits before it asks its store for jobs."""


async def submit_theirs(stage: Stage) -> None:
    """A job of somebody else, with a call that must not be cut off."""
    await stage.submit("faxing", "theirs", item="theirs")


async def check_theirs(stage: Stage, receiver: Receiver) -> None:
    """It was left alone; a worker completes it, and its fax was sent once."""
    assert await stage.types("theirs") == ["job_created"], await stage.report("theirs")
    assert receiver.count("theirs") == 0
    await stage.worker(SUBMITTING)
    assert await stage.completed("theirs") == "fax theirs"
    assert receiver.count("theirs") == 1


# ── submitting ────────────────────────────────────────────────────────────────────────────────────


async def test_a_script_that_submits_claims_nothing(stage: Stage, receiver: Receiver) -> None:
    """`agent.start` in a script that lives on for a while, beside a job of somebody else with an unsafe call."""
    receiver.hold("has submitted")
    await submit_theirs(stage)
    script = await stage.script("start", app=SUBMITTING)
    await receiver.until_arrived("has submitted")
    await asyncio.sleep(A_WHILE_S)
    assert [request.item for request in receiver.log] == ["has submitted"]
    await receiver.release()
    assert await script.over() == 0, script.log
    assert await stage.types("mine") == ["job_created"], "its own job is for a worker, too"
    await check_theirs(stage, receiver)
    assert await stage.completed("mine") == "pay mine-1, pay mine-2"


async def test_a_call_drives_its_own_job_and_its_children(stage: Stage, receiver: Receiver) -> None:
    await submit_theirs(stage)
    await stage.submit("looking", "other child", item="other")
    receiver.hold("mine-0")
    script = await stage.script("call", app=SUBMITTING)
    await receiver.until_arrived("mine-0")
    await asyncio.sleep(A_WHILE_S)
    await receiver.release()
    assert await script.over() == 0, script.log
    assert receiver.count("returned ['look mine-0']") == 1
    assert receiver.count("other") == 0, "of the same kind as its child, and not its child"
    await check_theirs(stage, receiver)


async def test_run_under_an_id_goes_on_with_the_job_after_a_kill(stage: Stage, receiver: Receiver) -> None:
    await submit_theirs(stage)
    receiver.hold("mine-2")
    first = await stage.script("run", app=SUBMITTING)
    await receiver.until_arrived("mine-2")
    await first.end(KILL)
    await receiver.release()
    second = await stage.script("run", app=SUBMITTING)
    assert await second.over() == 0, second.log
    assert receiver.count("returned pay mine-1, pay mine-2") == 1
    assert receiver.counts("pay") == {"mine-1": 1, "mine-2": 2}
    assert receiver.keys("pay") == {"mine-1": 1, "mine-2": 1}, "each payment happened once"
    assert sorted(await stage.jobs()) == ["mine", "theirs"]
    await check_theirs(stage, receiver)


async def test_run_under_an_id_attaches_to_a_job_that_runs(stage: Stage, receiver: Receiver) -> None:
    """Two processes and two calls in one of them, one id: one job, one payment, three equal results. Whoever is killed
    leaves the job to the others."""
    receiver.hold("mine-1")
    first = await stage.script("run", app=SUBMITTING)
    await receiver.until_arrived("mine-1")
    second = await stage.script("together", app=SUBMITTING)
    await asyncio.sleep(A_WHILE_S)
    assert receiver.count("mine-1") == 1, "the first process has it"
    await first.end(KILL)
    await receiver.release()
    assert await second.over() == 0, second.log
    assert receiver.count("returned pay mine-1, pay mine-2") == 2
    assert receiver.keys("pay") == {"mine-1": 1, "mine-2": 1}
    assert await stage.jobs() == ["mine"]


async def test_a_message_drives_an_expired_turn_that_stands_before_it(
    stage: Stage, receiver: Receiver
) -> None:
    await submit_theirs(stage)
    receiver.hold("one")
    first = await stage.script("send", "one", app=SUBMITTING)
    await receiver.until_arrived("one")
    await first.end(KILL)
    await receiver.release()
    second = await stage.script("send", "two", app=SUBMITTING)
    assert await second.over() == 0, second.log
    assert receiver.count("returned pay two") == 1
    assert receiver.counts("pay") == {"one": 2, "two": 1}
    assert receiver.keys("pay") == {"one": 1, "two": 1}
    await check_theirs(stage, receiver)


async def test_a_caller_that_gives_up_gives_the_job_back(stage: Stage, receiver: Receiver) -> None:
    """The call under way is finished, and the job is free for a worker while the script lives on."""
    receiver.hold("mine-1", "gave up")
    script = await stage.script("give_up", app=SUBMITTING)
    await receiver.until_arrived("mine-1", "gave up")
    await receiver.release("mine-1")
    await stage.until_recorded("job_released", 1, "mine")
    await asyncio.sleep(A_WHILE_S)
    assert (await stage.job("mine")).status is Status.PENDING
    assert receiver.count("mine-2") == 0
    await stage.worker(SUBMITTING)
    assert await stage.completed("mine") == "pay mine-1, pay mine-2"
    assert receiver.counts("pay") == {"mine-1": 1, "mine-2": 1}
    await receiver.release()
    assert await script.over() == 0, script.log


async def test_a_result_that_nobody_works_on_names_the_command(stage: Stage, receiver: Receiver) -> None:
    script = await stage.script("wait", app=SUBMITTING)
    await script.wait_for_log("no running worker serves 'paying' in queue 'default'")
    found = re.search(r"Start one: holdfast (worker \S+)", script.log)
    assert found is not None, script.log
    worker = await stage.command(*found.group(1).split())
    assert await script.over() == 0, script.log
    assert receiver.count("returned pay mine-1, pay mine-2") == 1
    assert script.log.count("no running worker") == 1, "two wait, and it is said once"
    await worker.end(signal.SIGTERM)


async def test_a_result_that_a_worker_serves_warns_of_nothing(stage: Stage, receiver: Receiver) -> None:
    receiver.hold("mine-1")
    await stage.worker(SUBMITTING)
    script = await stage.script("wait", app=SUBMITTING)
    await receiver.until_arrived("mine-1")
    await asyncio.sleep(A_WHILE_S)
    await receiver.release()
    assert await script.over() == 0
    assert script.log == ""


async def test_run_in_the_foreground_drives_one_job(stage: Stage, receiver: Receiver) -> None:
    """`holdfast run` beside a job of somebody else."""
    await submit_theirs(stage)
    receiver.hold("mine-0")
    run = await stage.command(*run_of(stage.folder, "family", item="mine"))
    await receiver.until_arrived("mine-0")
    await asyncio.sleep(A_WHILE_S)
    await receiver.release()
    assert await run.over() == 0, run.log
    await check_theirs(stage, receiver)


# ── what an App declares ──────────────────────────────────────────────────────────────────────────

WAYS = ["worker", "up", "run"]


def run_of(folder: Path, agent: str, **given: object) -> tuple[str, ...]:
    spec = folder / "spec.json"
    spec.write_text(json.dumps({"agent": agent, "input": given, "id": "job"}))
    return ("run", "--job", str(spec), "--app", str(SUBMITTING))


async def begin(stage: Stage, way: str, agent: str, *options: str, **given: Any) -> Child:
    """The job runs."""
    if way == "run":
        return await stage.command(*run_of(stage.folder, agent, **given))
    await stage.submit(agent, **given)
    if way == "worker":
        return await stage.worker(SUBMITTING, *options)
    up = await stage.command("up", str(SUBMITTING), "--port", "0", *options)
    await up.wait_for_log(r"worker \d+ is up")
    return up


async def kill(way: str, child: Child) -> None:
    """The process that drives the job is dead."""
    if way != "up":
        await child.end(KILL)
        return
    found = re.search(r"worker (\d+) is up", child.log)
    assert found is not None
    os.kill(int(found.group(1)), signal.SIGKILL)


async def go_on(stage: Stage, way: str) -> None:
    """Another one takes its place; under `up` it does by itself."""
    if way == "worker":
        await stage.worker(SUBMITTING)
    elif way == "run":
        await stage.command("run", "--resume", "--run-id", "job", "--app", str(SUBMITTING))


@pytest.mark.parametrize("way", WAYS)
async def test_declared_durability_holds(stage: Stage, receiver: Receiver, where: str, way: str) -> None:
    """`App(durability="strict")`, and a database that cannot write for a moment: in none of three branches does a read
    begin before the result of the one before is on disk. So a kill repeats no other reads than those three."""
    stage.environment = {"APP_DURABILITY": "strict"}
    last = [f"{book}-9" for book in "abc"]
    receiver.hold(*last)
    child = await begin(stage, way, "reading", pages=15)
    await receiver.until_arrived(*last)
    await stage.until_recorded("step_finished", 27)
    async with blocked_writes(where):
        await receiver.release()
        await asyncio.sleep(A_WHILE_S)
        assert len(receiver.log) == 30, "their results are not on disk"
        await kill(way, child)
    await go_on(stage, way)
    assert await stage.completed() == 15
    counts = receiver.counts("look")
    assert {item: count for item, count in counts.items() if count > 1 and item not in last} == {}
    assert len(counts) == 45


@pytest.mark.parametrize("way", WAYS)
async def test_declared_concurrency_holds(stage: Stage, receiver: Receiver, way: str) -> None:
    """`App(concurrency=2)` and five children that are ready: two calls are under way, never three."""
    stage.environment = {"APP_CONCURRENCY": "2"}
    items = [f"child-{nth}" for nth in range(5)]
    receiver.hold(*items)
    await begin(stage, way, "family", item="child", children=5)
    await receiver.until(lambda: len(receiver.log) >= 2, "no two calls at a time")
    await asyncio.sleep(A_WHILE_S)
    assert len(receiver.log) == 2, receiver.log
    await receiver.release()
    assert sorted(await stage.completed()) == [f"look {item}" for item in items]
    assert receiver.counts("look") == dict.fromkeys(items, 1)


@pytest.mark.parametrize("way", ["worker", "up"])
async def test_an_option_overrides_what_is_declared(stage: Stage, receiver: Receiver, way: str) -> None:
    stage.environment = {"APP_CONCURRENCY": "2"}
    receiver.hold(*(f"child-{nth}" for nth in range(5)))
    await begin(stage, way, "family", "--concurrency", "3", item="child", children=5)
    await receiver.until(lambda: len(receiver.log) >= 3, "no three calls at a time")
    await asyncio.sleep(A_WHILE_S)
    assert len(receiver.log) == 3, receiver.log
    await receiver.release()
    await stage.completed()
