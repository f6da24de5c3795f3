"""Goal: a job that takes longer than the timeout of its agent fails at that time, across crashes, and nothing of it is
done afterwards. Method: an application under `holdfast worker` that is killed; the receiver's log is the witness."""

from __future__ import annotations

import re

import pytest

from holdfast.client.records import EventView
from holdfast.model.states import Status
from holdfast.model.time import SECOND
from tests.kill.processes.stage import KILL, Stage
from tests.support.project import ROOT

pytestmark = pytest.mark.timeout(180)

APP = ROOT / "tests/kill/processes/deadline_app.py"


async def find(stage: Stage, event_type: str, job_id: str = "job") -> list[EventView]:
    return [event for event in await stage.events(job_id) if event.type == event_type]


async def check_timed_out(stage: Stage, timeout_s: int, job_id: str = "job") -> EventView:
    """The job has failed, and not before its time. Returns its last event."""
    await stage.until_recorded("job_failed", 1, job_id)
    created, *_, failed = await stage.events(job_id)
    assert failed.type == "job_failed"
    assert failed.at - created.at >= timeout_s * SECOND
    assert failed.body["error"]["type"] == "JobTimedOut"
    assert f"job {job_id} was not over within its timeout of {timeout_s} s" in failed.body["error"]["message"]
    assert (await stage.job(job_id)).status is Status.FAILED
    return failed


async def test_a_job_that_waits_for_ever_fails_at_its_time(stage: Stage) -> None:
    """Its worker is killed while it is suspended; the next one finds it due at the same instant."""
    first = await stage.worker(APP)
    await stage.submit("waits")
    await stage.until_recorded("job_waiting", 1)
    (waiting,) = await find(stage, "job_waiting")
    created, *_ = await stage.events()
    assert waiting.body["wake_at"] == created.at + 3 * SECOND
    await first.end(KILL)
    second = await stage.worker(APP)
    await check_timed_out(stage, 3)
    assert stage.receiver.count("before") == 1
    claims = [event.at for event in await find(stage, "job_claimed")]
    assert len(claims) == 2
    assert claims[1] >= waiting.body["wake_at"], "nobody held it meanwhile"
    await second.wait_for_log(r"job job \(waits\) has failed: JobTimedOut: job job was not over .* 3 s")
    for command in ("job", "trace"):
        shown = re.sub(r"\s+", " ", await stage.holdfast(command, "job"))
        assert "JobTimedOut: job job was not over within its timeout of 3 s" in shown


async def test_a_killed_worker_does_not_prolong_it(stage: Stage) -> None:
    """Two workers have the job in hand, each in a read that gets no answer. The time counts from the submission."""
    stage.receiver.hold("hold")
    await stage.submit("looks", item="hold")
    first = await stage.worker(APP)
    await stage.receiver.until_arrived("hold")
    await first.end(KILL)
    await stage.worker(APP)
    failed = await check_timed_out(stage, 10)
    claims = await find(stage, "job_claimed")
    assert failed.at < claims[-1].at + 10 * SECOND, "not counted anew by the worker that took over"


async def test_a_call_that_is_cut_off_is_named_and_not_made_again(stage: Stage) -> None:
    stage.receiver.hold("a")
    first = await stage.worker(APP)
    await stage.submit("faxes", item="a")
    await stage.receiver.until_arrived("a")
    failed = await check_timed_out(stage, 8)
    assert failed.body["error"]["message"].endswith("; calls without an outcome on record: fax")
    assert (stage.folder / "cancelled").exists(), "its code has seen the cancellation"
    await first.end(KILL)
    await stage.worker(APP)
    await stage.submit("parent", "next")  # the worker has claimed what there was to claim before it
    await stage.until_recorded("job_waiting", 1, "next")
    assert stage.receiver.count("a") == 1
    assert (await stage.types()).count("tool_called") == 1


async def test_a_call_that_waits_for_a_person_is_named(stage: Stage) -> None:
    """The worker dies in the call: nobody knows whether it happened, a person is asked, and the time goes on."""
    stage.receiver.hold("a")
    first = await stage.worker(APP)
    await stage.submit("faxes", item="a")
    await stage.receiver.until_arrived("a")
    await first.end(KILL)
    await stage.worker(APP)
    failed = await check_timed_out(stage, 8)
    assert failed.body["error"]["message"].endswith("; calls without an outcome on record: fax")
    assert stage.receiver.count("a") == 1


async def test_no_attempt_is_made_after_it(stage: Stage) -> None:
    await stage.worker(APP)
    await stage.submit("fails")
    await check_timed_out(stage, 3)
    assert (await stage.types())[-2:] == ["job_claimed", "job_failed"], "the last pause ends with the time"


async def test_a_parent_catches_it(stage: Stage) -> None:
    """The worker is killed while both sleep."""
    first = await stage.worker(APP)
    await stage.submit("parent")
    await stage.until_recorded("child_started", 1)
    (started,) = await find(stage, "child_started")
    child = started.body["child_job_id"]
    await stage.until_recorded("job_waiting", 1, child)
    await first.end(KILL)
    await stage.worker(APP)
    said = await stage.completed()
    assert said == f"too late: job {child} was not over within its timeout of 3 s"
    await check_timed_out(stage, 3, child)


async def test_whoever_waits_for_the_job_gets_it(stage: Stage) -> None:
    script = await stage.script(app=APP)
    assert await script.over() == 0, script.log
    raised = (stage.folder / "raised").read_text(encoding="utf-8")
    assert raised == "job: job job was not over within its timeout of 3 s"


async def test_a_policy_file_sets_it_by_name(stage: Stage) -> None:
    path = stage.folder / "policy.toml"
    path.write_text('[agents."by_*"]\ntimeout = "2s"\n', encoding="utf-8")
    stage.environment["HOLDFAST_POLICY"] = str(path)
    await stage.worker(APP)
    await stage.submit("by_policy")
    await check_timed_out(stage, 2)
