"""Goal: seed 000 by name, 9 of 9. Method: one API and workers as real processes over SQLite and Postgres, kill -9, the
command line and HTTP as people use them; the outside world's own log is the witness."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.api.server.api import as_owner
from tests.support.deployment.receivers import serving
from tests.support.deployment.stage import APP, Stage

pytestmark = [pytest.mark.parametrize("lane", ["sqlite", "postgres"]), pytest.mark.timeout(400)]

TOOLS = {"first": 1, "second": 1, "third": 1}
TERMINAL = {"completed", "failed", "cancelled"}


@pytest.fixture
def stage(lane: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    if lane == "sqlite":
        store = f"sqlite:///{tmp_path / 'holdfast.db'}"
    else:
        store = request.getfixturevalue("durable_postgres_database")
    with serving() as outside:
        made = Stage(tmp_path, store, outside)
        try:
            made.serve()
            yield made
        finally:
            made.close()


@pytest.fixture
def whole(request: pytest.FixtureRequest) -> bool:
    """`make acceptance` counts to the seed's numbers; `make test` to smaller ones."""
    return bool(request.config.getoption("--acceptance"))


# ── 1 ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.seed("000", check="worker_crash_recovery")
def test_a_worker_that_is_killed_loses_no_message(stage: Stage) -> None:
    """A message to an agent, tools and model calls, kill -9 after the first tool: the same job completes."""
    stage.create_agent()
    worker = stage.work()
    stage.outside.hold("second")
    job_id = stage.message("go")
    stage.outside.until_arrived("second")
    stage.until(job_id, "tool_returned")
    stage.kill(worker)
    stage.work()
    stage.outside.let_go()
    assert stage.reply(job_id) == "Done. You first said: go"
    seen = stage.count(job_id)
    assert seen["plan_generated"] <= 1
    assert (seen["llm_responded"], seen["tool_returned"]) == (4, 3), "each model call and each tool once"
    assert stage.outside.arrived["first"] == 1, "a finished tool is not called again"
    assert stage.outside.answered == TOOLS
    assert len(stage.outside.keys["second"]) == 1, "what was cut off came again under its key"
    assert "takeover" in stage.holdfast("trace", job_id, "--json")


@pytest.mark.seed("000", check="worker_crash_recovery")
def test_a_worker_that_is_killed_loses_no_plan(stage: Stage) -> None:
    worker = stage.work()
    stage.outside.hold("second")
    job_id = stage.submit("planned", goal="all three")
    stage.outside.until_arrived("second")
    stage.until(job_id, "node_finished")
    stage.kill(worker)
    stage.work()
    stage.outside.let_go()
    assert stage.ended(job_id)["output"] == "first second third"
    seen = stage.count(job_id)
    assert (seen["plan_generated"], seen["node_finished"]) == (1, 3)
    assert stage.outside.answered == TOOLS
    assert stage.outside.arrived["first"] == 1


# ── 2 ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.seed("000", check="api_restart_does_not_affect_jobs")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_the_api_restarts_and_no_job_notices(stage: Stage, how: signal.Signals) -> None:
    stage.work()
    stage.outside.hold("second")
    job_id = stage.submit("planned", goal="all three")
    stage.outside.until_arrived("second")
    before = stage.job(job_id)
    stage.kill(stage.api, how)
    stage.serve()
    after = stage.job(job_id)
    assert (before["status"], after["status"]) == ("running", "running")
    assert (after["worker"], after["claims"]) == (before["worker"], before["claims"])
    assert after["events"] >= before["events"], "nothing regressed"
    stage.outside.let_go()
    job = stage.ended(job_id)
    assert (job["claims"], job["takeovers"]) == (1, 0), "one worker brought it to its end"
    assert stage.outside.arrived == TOOLS


# ── 3 ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.seed("000", check="multiple_workers_no_duplicate_execution")
def test_three_workers_answer_ten_messages_once(stage: Stage) -> None:
    stage.create_agent()
    for _ in range(3):
        stage.work()
    jobs = [stage.message("go", session=f"s{nth}") for nth in range(10)]
    for job_id in jobs:
        assert stage.reply(job_id) == "Done. You first said: go"
        seen = stage.count(job_id)
        assert (seen["job_completed"], seen["tool_called"], seen["llm_responded"]) == (1, 3, 4)
    assert stage.outside.arrived == dict.fromkeys(TOOLS, 10)
    assert {name: len(keys) for name, keys in stage.outside.keys.items()} == dict.fromkeys(TOOLS, 10)


@pytest.mark.seed("000", check="multiple_workers_no_duplicate_execution")
def test_three_workers_run_a_thousand_jobs_once(stage: Stage, *, whole: bool) -> None:
    """Each makes one unsafe call: whoever is called twice was called twice."""
    count = 1000 if whole else 150
    for _ in range(3):
        stage.work()
    jobs = submit_many(stage, "one_step", [{"what": str(nth)} for nth in range(count)])
    assert len(set(jobs)) == count
    until_all_over(stage, count)
    assert totals(stage) == {"completed": count}
    assert stage.outside.arrived == {f"once/{nth}": 1 for nth in range(count)}


# ── 4 ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.seed("000", check="planner_determinism")
def test_the_plan_is_the_same_after_recovery(stage: Stage) -> None:
    worker = stage.work()
    stage.outside.hold("second")
    job_id = stage.submit("planned", goal="all three")
    stage.outside.until_arrived("second")
    before = plans(stage, job_id)
    generated = plan_events(stage, job_id)
    stage.kill(worker)
    stage.work()
    stage.outside.let_go()
    stage.ended(job_id)
    after = plans(stage, job_id)
    assert (
        [node[:3] for node in after]
        == [node[:3] for node in before]
        == [
            ("a", "first", ()),
            ("b", "second", ("a",)),
            ("c", "third", ("b",)),
        ]
    )
    assert [node[3] for node in after] == ["succeeded"] * 3
    assert plan_events(stage, job_id) == generated, "the very fact of before, and no other"
    started = [event["body"]["node"] for event in stage.events(job_id) if event["type"] == "node_started"]
    assert list(dict.fromkeys(started)) == ["a", "b", "c"]


def plans(stage: Stage, job_id: str) -> list[tuple[str, str, tuple[str, ...], str]]:
    """The nodes of the one plan, in their order, as `holdfast trace` tells them."""
    (plan,) = json.loads(stage.holdfast("trace", job_id, "--json"))["plans"]
    return [(node["name"], node["tool"], tuple(node["after"]), node["state"]) for node in plan["nodes"]]


def plan_events(stage: Stage, job_id: str) -> list[Any]:
    return [event for event in stage.events(job_id) if event["type"] == "plan_generated"]


# ── 5 ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.seed("000", check="session_persistence")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_conversation_goes_on_after_the_worker_restarted(stage: Stage, how: signal.Signals) -> None:
    stage.create_agent()
    worker = stage.work()
    for text in ("My name is Ada.", "I like kelp."):
        assert stage.reply(stage.message(text)) == f"I hear you: {text}"
    stage.kill(worker, how)
    stage.work()
    assert stage.reply(stage.message("Do you remember me?")) == "You first said: My name is Ada."
    session = stage.ask("GET", "/api/sessions/s1")
    assert len(session["active_path"]) == 6, "three messages and three answers"


# ── 6 ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.seed("000", check="tool_idempotency")
def test_after_recovery_only_later_nodes_run(stage: Stage) -> None:
    worker = stage.work()
    stage.outside.hold("third")
    job_id = stage.submit("planned", goal="all three")
    stage.outside.until_arrived("third")
    stage.until(job_id, "node_finished", 2)
    cut = len(stage.events(job_id))
    stage.kill(worker)
    stage.work()
    stage.outside.let_go()
    stage.ended(job_id)
    events = stage.events(job_id)
    later = {event["body"].get("tool") for event in events[cut:] if event["type"] == "tool_called"}
    assert later == {"third"}, "only what had not finished"
    for kind in ("tool_returned", "node_finished"):
        names = Counter(
            event["body"].get("step_key") or event["body"]["node"]
            for event in events
            if event["type"] == kind
        )
        assert set(names.values()) == {1}, f"{kind} once for each"
    assert stage.outside.arrived == {"first": 1, "second": 1, "third": 2}
    assert len(stage.outside.keys["third"]) == 1, "a receiver that knows keys did it once"


# ── 7 ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.seed("000", check="event_log_replay")
def test_the_journal_is_replayed_without_a_call(stage: Stage) -> None:
    """A job that was killed and one that was not have the same path and result; a replay of either calls nobody."""
    smooth = stage.submit("planned", goal="all three")
    worker = stage.work()
    stage.ended(smooth)
    stage.outside.hold("second")
    rough = stage.submit("planned", goal="all three")
    stage.outside.until_arrived("second", 2)
    stage.kill(worker)
    stage.work()
    stage.outside.let_go()
    assert stage.ended(rough)["output"] == stage.job(smooth)["output"] == "first second third"
    assert path_of(stage, rough) == path_of(stage, smooth)
    calls = Counter(stage.outside.arrived)
    for job_id in (smooth, rough):
        told = json.loads(stage.holdfast("replay", job_id, "--app", str(APP), "--json"))
        assert told["output"] == "first second third"
        assert stage.ask("GET", f"/api/jobs/{job_id}/verify")["violations"] == []
    assert stage.outside.arrived == calls, "a replay calls nobody"


def path_of(stage: Stage, job_id: str) -> list[tuple[str, str]]:
    """What was done with which outcome, in the order of the journal, each once."""
    done = {"node_finished": "node", "tool_returned": "step_key", "llm_responded": "step_key"}
    return [
        (event["type"], event["body"][done[event["type"]]])
        for event in stage.events(job_id)
        if event["type"] in done
    ]


# ── 8 ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.seed("000", check="backpressure")
def test_a_worker_does_no_more_at_a_time_than_it_was_told(stage: Stage) -> None:
    """A hundred jobs, each of whose calls is held as long as it takes until four have come: never a fifth."""
    names = [str(nth) for nth in range(100)]
    stage.outside.hold(*(f"once/{name}" for name in names))
    submit_many(stage, "one_step", [{"what": name} for name in names])
    stage.work(concurrency=4)
    stage.outside.until(lambda: stage.outside.arrived.total() == 4, "four at a time")
    assert totals(stage)["running"] == 4
    stage.outside.let_go()
    until_all_over(stage, len(names))
    assert totals(stage) == {"completed": 100}
    assert stage.outside.most == 4
    assert set(stage.outside.arrived.values()) == {1}


@pytest.mark.seed("000", check="backpressure")
def test_ten_thousand_jobs_take_no_memory(stage: Stage, *, whole: bool) -> None:
    count = 10_000 if whole else 600
    worker = stage.work(concurrency=4)
    stage.ended(stage.submit("short"))
    assert stage.api is not None
    before = memory(worker.pid), memory(stage.api.pid)
    submit_many(stage, "short", [{}] * count)
    most = [0, 0]
    while totals(stage).get("completed", 0) < count + 1:
        assert totals(stage).get("running", 0) <= 4
        most = [max(most[0], memory(worker.pid)), max(most[1], memory(stage.api.pid))]
    assert totals(stage) == {"completed": count + 1}
    for peak, start in zip(most, before, strict=True):
        assert peak < start * 1.6, f"{start} kB grew to {peak} kB"


def memory(pid: int) -> int:
    """What the process keeps in memory, in kB."""
    return int(subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True).stdout)


# ── 9 ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.seed("000", check="cancellation")
def test_a_model_that_speaks_is_stopped(stage: Stage) -> None:
    stage.work()
    job_id = stage.submit("speaks")
    stage.outside.until_arrived("model")
    stage.holdfast("cancel", job_id)
    stage.outside.until_hung_up("model")
    stage.ended(job_id, "cancelled")
    assert stage.events(job_id)[-1]["type"] == "job_cancelled"
    assert "cancelled" in stage.holdfast("trace", job_id)
    assert stage.outside.arrived["model"] == 1, "nobody asked it again"


@pytest.mark.seed("000", check="cancellation")
def test_a_tool_that_runs_is_interrupted(stage: Stage) -> None:
    stage.work()
    job_id = stage.submit("toils")
    stage.outside.until_arrived("toil")
    pid = int((stage.folder / "pid").read_text())
    os.kill(pid, 0)
    stage.ask("POST", f"/api/jobs/{job_id}/stop", {"why": "enough"})
    job = stage.ended(job_id, "cancelled")
    assert job["cancelled_why"] == "enough"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert stage.events(job_id)[-1]["type"] == "job_cancelled"


# ── many jobs ─────────────────────────────────────────────────────────────────────────────────────


def submit_many(stage: Stage, kind: str, given: list[dict[str, Any]]) -> list[str]:
    """All of them accepted over HTTP, some at the same time."""

    async def submit() -> list[str]:
        async with httpx2.AsyncClient(
            base_url=stage.url,
            headers=as_owner(stage.url),
            limits=httpx2.Limits(max_connections=16),
            timeout=120,
            trust_env=False,
        ) as http:

            async def one(input_: dict[str, Any]) -> str:
                response = await http.post("/api/jobs", json={"kind": kind, "input": input_})
                assert response.status_code == 201, response.text
                return str(response.json()["job_id"])

            found: list[str] = []
            for at in range(0, len(given), 200):
                found += await asyncio.gather(*(one(input_) for input_ in given[at : at + 200]))
            return found

    return asyncio.run(submit())


def totals(stage: Stage) -> dict[str, int]:
    """How many jobs are in which state."""
    told = stage.ask("GET", "/api/stats")["totals"]
    return {status: count for status, count in told.items() if count and status != "jobs"}


def until_all_over(stage: Stage, count: int) -> None:
    while sum(count for status, count in totals(stage).items() if status in TERMINAL) < count:
        pass
