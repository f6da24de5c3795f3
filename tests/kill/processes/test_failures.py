"""Goal: whoever looks at a failed job sees what the code raised, and where. Method: an application that raises, hangs
and blocks, under `holdfast worker`; the log, `holdfast job`, `holdfast trace`, and what a client is told."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable

import pytest

from holdfast.api.job_records import JobView
from holdfast.model.states import WaitReason
from tests.kill.processes.stage import KILL, PATIENCE_S, Child, Stage
from tests.support.project import ROOT

pytestmark = pytest.mark.timeout(180)

APP = ROOT / "tests/kill/processes/failure_app.py"
LINES = APP.read_text(encoding="utf-8").splitlines()


def line_of(mark: str) -> int:
    """The number of the line of the application that ends with this mark."""
    (number,) = [number for number, line in enumerate(LINES, 1) if line.endswith(f"# {mark}")]
    return number


async def until(stage: Stage, job_id: str, seen: Callable[[JobView], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not seen(await stage.job(job_id)):  # noqa: ASYNC110 - a process of its own does it
            await asyncio.sleep(0.05)


async def until_held(stage: Stage, job_id: str, reason: WaitReason) -> None:
    await until(stage, job_id, lambda job: job.wait_reason is reason)


def log_lines(worker: Child, job_id: str) -> list[str]:
    return [line for line in worker.log.splitlines() if f"holdfast job {job_id}" in line]


async def test_a_dead_letter_tells_each_failed_attempt_with_its_traceback(stage: Stage) -> None:
    worker = await stage.worker(APP)
    await stage.submit("buys", "buys")
    await until_held(stage, "buys", WaitReason.DEAD_LETTER)
    job = await stage.job("buys")
    (need,) = job.needs
    assert need.what == "Failed after 3 attempts: KeyError: 'nope'"
    assert len(job.error) == 3, "every attempt"
    for cause in job.error:
        assert (cause["why"], cause["error"]["type"], cause["error"]["message"]) == (
            "failed",
            "KeyError",
            "'nope'",
        )
        assert job.created_at < cause["at"] <= job.changed_at
        assert cause["holder"] == job.last_worker
        frames = cause["error"]["traceback"]
        assert [frame["function"] for frame in frames] == ["buys", "look", "find_price"]
        assert frames[-1] == {
            "file": str(APP),
            "line": line_of("KEY ERROR"),
            "function": "find_price",
            "code": "return PRICES[item]  # KEY ERROR",
        }
    for shown in (await stage.holdfast("job", "buys"), await stage.holdfast("trace", "buys")):
        assert "Failed after 3 attempts: KeyError: 'nope'" in shown
        assert f'File "{APP}", line {line_of("KEY ERROR")}, in find_price' in shown
        assert shown.count("return PRICES[item]") == 1
        assert shown.count("same traceback") == 2, "once is enough"
        assert "used up its attempts" not in shown
    trace = json.loads(await stage.holdfast("trace", "buys", "--json"))
    assert [seam["error"]["traceback"][-1]["line"] for seam in trace["seams"] if seam["error"]] == [
        line_of("KEY ERROR")
    ] * 3
    await worker.wait_for_log("dead letter")
    first, second, last = log_lines(worker, "buys")
    place = f"KeyError: 'nope' at {APP}:{line_of('KEY ERROR')} in find_price"
    assert f"failed, attempt 1: {place}; next attempt in " in first
    assert f"failed, attempt 2: {place}; next attempt in " in second
    assert f"is a dead letter, failed after 3 attempts: {place}" in last


async def test_secrets_are_in_no_traceback_and_groups_say_what_is_in_them(stage: Stage) -> None:
    worker = await stage.worker(APP)
    await stage.submit("leaks", "leaks")
    await stage.submit("grouped", "grouped")
    for job_id in ("leaks", "grouped"):
        await until_held(stage, job_id, WaitReason.DEAD_LETTER)
    told = str([event.body for event in await stage.events("leaks")]) + await stage.holdfast("job", "leaks")
    assert "[redacted:api-key] is no password" in told
    assert "sk-ant" not in told + worker.log
    shown = await stage.holdfast("job", "grouped")
    assert "(1 sub-exception): KeyError: 'nope'" in shown
    assert f'File "{APP}", line {line_of("KEY ERROR")}, in find_price' in shown


@pytest.mark.parametrize(
    "kind, error, mark",
    [("faxes", "ConnectionError: refused: nothing was sent", "REFUSED"), ("dials", "TimeoutError", "HANGS")],
)
async def test_an_effect_that_raised_is_not_called_cut_off(
    stage: Stage, kind: str, error: str, mark: str
) -> None:
    worker = await stage.worker(APP)
    await stage.submit(kind)
    await until_held(stage, "job", WaitReason.RECONCILE)
    (need,) = (await stage.job()).needs
    assert need.evidence.startswith(f"raised {error}; it may or may not have happened")
    assert need.error["traceback"][-1]["line"] == line_of(mark)
    for shown in (await stage.holdfast("job", "job"), await stage.holdfast("trace", "job")):
        assert f"raised {error}" in re.sub(r"\s+", " ", shown)
        assert f"{line_of(mark)}" in shown
        assert "cut off" not in shown
    await worker.wait_for_log(f"raised {error} at {re.escape(str(APP))}:{line_of(mark)}")
    assert len(log_lines(worker, "job")) == 1


async def test_an_effect_whose_worker_died_is_called_cut_off(stage: Stage) -> None:
    mark = stage.folder / "hangs"
    stage.environment["MARK"] = str(mark)
    first = await stage.worker(APP)
    await stage.submit("hangs")
    await until(stage, "job", lambda _: mark.exists())
    await first.end(KILL)
    second = await stage.worker(APP)
    await until_held(stage, "job", WaitReason.RECONCILE)
    (need,) = (await stage.job()).needs
    assert need.evidence.startswith("cut off after the call had begun")
    assert need.error is None
    await second.wait_for_log("outcome unknown: hang was cut off")


async def test_a_call_that_returned_cannot_be_said_not_to_have_happened(stage: Stage) -> None:
    """What it returned cannot be stored. It happened: nobody is asked, and the word is refused."""
    await stage.worker(APP)
    await stage.submit("draws")
    await until_held(stage, "job", WaitReason.DEAD_LETTER)
    job = await stage.job()
    assert job.calls == {"succeeded": 1}
    assert "reconcile" not in str([need.commands for need in job.needs])
    refused = await stage.refused("reconcile", "job", "draw", "--not-happened", "--why", "nothing came")
    assert "outcome of call" in refused
    assert (await stage.types()).count("tool_called") == 1


async def test_blocking_code_is_reported_with_its_line_and_the_remedy(stage: Stage) -> None:
    worker = await stage.worker(APP)
    await stage.submit("blocks")
    await worker.wait_for_log("has not answered for")
    await worker.wait_for_log("plain `def` tool")
    said = worker.log[worker.log.index("has not answered for") :]
    frames = re.findall(r'File "(.*)", line (\d+)', said)
    assert {file for file, _ in frames} == {str(APP)}, "the author's frames, and no others"
    assert frames[-1][1] == str(line_of("BLOCKS"))
