"""A stalled job at the terminal: a real worker reports it and holds it, every command shows it, a word moves it on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.cli.exit_codes import exit_status
from holdfast.errors import JobHeld
from tests.api.client.job_states import Lives
from tests.cli.conftest import CommandDesk, desk, postgres_template
from tests.cli.test_run import done, holdfast, job_in, spec
from tests.support.project import ROOT

__all__ = ["desk", "postgres_template"]

BOTH = pytest.mark.parametrize("desk", ["sqlite", "postgres"], indirect=True)

APP = """
import asyncio
from pathlib import Path

import holdfast as hf
from holdfast.engine import stall_detector

# What takes ten minutes takes half a second here.
stall_detector.LOOK_EVERY_S = stall_detector.REPORT_AFTER_S = 0.1
stall_detector.HOLD_AFTER_S = 0.5

app = hf.App()

@app.tool(effect="read_only")
async def look(what: str) -> str:
    return what.upper()

async def wait_for_reply() -> None:
    if not Path("repaired").exists():
        await asyncio.get_running_loop().create_future()

@app.agent
async def forgetful(order: str) -> str:
    found = await look(order)
    await wait_for_reply()
    return found
"""
HELD = exit_status(JobHeld("held", job_id="job_1"))
STANDS = "app.py:20 in wait_for_reply"


@contextmanager
def working(folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = holdfast(folder, "worker", "app.py")
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.store("sqlite")
def test_a_worker_reports_a_job_that_stands_still_and_holds_it(tmp_path: Path) -> None:
    """Goal: nothing is stuck in silence. Method: an agent that awaits a future that nobody sets, in a real process; its
    log, then every command that shows jobs; the code is repaired, and `resume` uses what is recorded."""
    (tmp_path / "app.py").write_text(APP)
    _, err = done(
        tmp_path, "run", "--job", spec(tmp_path, agent="forgetful", input={"order": "a-1"}), status=HELD
    )
    job_id = job_in(err)
    assert "makes no progress" in err
    assert STANDS in err
    assert "What the code of an agent waits for must be durable" in err
    assert "waiting: stalled" in done(tmp_path, "jobs")[0]
    assert "stalled" in done(tmp_path, "jobs", "--reason", "stalled")[0]
    person, _ = done(tmp_path, "jobs", "--person")
    assert "No progress: its code waits for something that is not durable" in person
    shown, _ = done(tmp_path, "job", job_id)
    assert f"waits at    {tmp_path / 'app.py'}:20 in wait_for_reply" in shown
    assert f"holdfast resume {job_id} --why '…'" in shown
    assert f"holdfast cancel {job_id}" in shown
    doctor, _ = done(tmp_path, "doctor")
    assert "1 job without progress: holdfast jobs --reason stalled" in doctor
    assert "stalled: its code waits" in done(tmp_path, "trace", job_id)[0]
    (tmp_path / "repaired").touch()
    done(tmp_path, "resume", job_id, "--why", "the reply is there", "--by", "ada")
    with working(tmp_path):
        while '"completed"' not in done(tmp_path, "job", job_id, "--json")[0]:
            pass
    assert '"output":"A-1"' in done(tmp_path, "job", job_id, "--json")[0]


@BOTH
def test_a_stalled_job_is_shown_and_cancelled(desk: CommandDesk) -> None:
    """The author's line comes first, then how the code came there, then what to type."""
    desk.columns(200)
    job_id = desk.live(Lives.stalled)
    lines = [line.split() for line in desk.type("job", job_id).out.splitlines()]
    at = next(number for number, line in enumerate(lines) if line[:2] == ["waits", "at"])
    assert lines[at][-1] == "forgetful"
    assert lines[at - 1] == ["task", "Lives.forgetful"]
    (need,) = desk.type("jobs", "--person", "--json").lines
    assert (need["reason"], need["job_status"], need["job_id"]) == ("stalled", "waiting", job_id)
    assert desk.type("cancel", job_id, "--why", "no use").status == 0
    assert desk.type("jobs", "--status", "cancelled", "--json").lines[0]["job_id"] == job_id
    assert "no job needs a person" in desk.type("jobs", "--person").err


@BOTH
@pytest.mark.parametrize(
    "kind, shown", [("uncertain", "running: reconcile"), ("approval", "running: approval")]
)
def test_a_running_job_that_needs_a_person_is_shown(desk: CommandDesk, kind: str, shown: str) -> None:
    """Look at it as somebody else would, while a long read of it goes on."""

    async def look(one: Lives) -> tuple[str, str, str]:
        async with one.needing(kind) as (job_id, _):
            listed = await typed(desk.where, "jobs", "--person")
            return job_id, listed, await typed(desk.where, "job", job_id)

    job_id, listed, job = desk.live(look)
    assert shown in listed
    assert job_id in listed
    assert "Running, and needs a person: " in job


async def typed(where: str, *arguments: str) -> str:
    """What the command prints in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.cli", *arguments, "--store", where),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return out.decode()
