"""`holdfast run`, `worker`, `replay` and `fork` as a person types them."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CommandDesk
from tests.support.project import ROOT

APP = """
import holdfast as hf

app = hf.App()

@app.tool(effect="read_only")
async def look(what: str) -> str:
    print("looked at", what, flush=True)
    return what.upper()

@app.agent
async def report(topic: str) -> list[str]:
    first = await look(topic)
    if topic == "wait":
        print("waiting", flush=True)
        await hf.wait("go on")
    return [first, await look("end")]

@app.agent
async def broken() -> None:
    raise LookupError("no such page")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def spec(folder: Path, **fields: object) -> str:
    path = folder / "job.json"
    path.write_text(json.dumps({"app": "app.py", **fields}))
    return str(path)


def holdfast(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "HOLDFAST_STORE": f"sqlite:///{folder / 'test.db'}",
        "COLUMNS": "100",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(folder: Path, *arguments: str, status: int = 0) -> tuple[str, str]:
    process = holdfast(folder, *arguments)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status, (out, err)
    assert "Traceback" not in err
    return out, err


def job_in(text: str) -> str:
    found = re.search(r"job_[0-9a-z]+", text)
    assert found is not None, text
    return found[0]


@pytest.mark.store("sqlite")
def test_a_job_runs_replays_and_forks(folder: Path) -> None:
    """One story: run to the end; replay makes no call and says the same; changed code is told the step; a fork shares
    the past and does the rest."""
    out, err = done(folder, "run", "--job", spec(folder, agent="report", input={"topic": "kelp"}))
    assert out.splitlines() == ["looked at kelp", "looked at end", '["KELP","END"]']
    job = job_in(err)

    out, _ = done(folder, "replay", job, "--app", "app.py")
    assert out == "identical: 2 steps replayed, no live calls, same result\n"

    (folder / "changed.py").write_text(APP.replace('await look("end")', 'await look("the end")'))
    out, _ = done(folder, "replay", job, "--app", "changed.py", status=1)
    assert "different: the call was made with other arguments" in out
    assert "0/look#2" in out

    _, err = done(folder, "fork", job, "--at", "look", status=2)
    assert "'look' names 2 steps" in err
    assert "'0/look#1', '0/look#2'" in err
    out, _ = done(folder, "fork", job, "--at", "look#2", "--id", "job_fork")
    assert out.strip() == "job_fork"
    out, _ = done(folder, "run", "--resume", "--run-id", "job_fork", "--app", "app.py")
    assert out.splitlines() == ["looked at end", '["KELP","END"]'], "nothing of the past is called again"
    edit = ("--edit", "0/look#1", '"another"', "--why", "what if", "--by", "ada")
    out, _ = done(folder, "fork", job, "--at", "0/look#2", "--id", "job_other", *edit)
    assert out.strip() == "job_other"
    assert "Result replaced by ada for this fork: what if" in done(folder, "trace", "job_other")[0]
    out, _ = done(folder, "run", "--resume", "--run-id", "job_other", "--app", "app.py")
    assert out.splitlines() == ["looked at end", '["another","END"]']


@pytest.mark.store("sqlite")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_how_to_go_on(folder: Path, number: signal.Signals) -> None:
    process = holdfast(folder, "run", "--job", spec(folder, agent="report", input={"topic": "wait"}))
    assert process.stdout is not None
    while process.stdout.readline() != "waiting\n":
        pass
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    job = job_in(err)
    command = next(line for line in err.splitlines() if "holdfast run --resume" in line)
    done(folder, "signal", job, "go on")
    _, *arguments = shlex.split(command)
    out, _ = done(folder, *arguments)
    assert out.splitlines()[-1] == '["WAIT","END"]'
    assert "looked at wait" not in out, "finished steps are not run again"


@pytest.mark.store("sqlite")
def test_a_worker_drives_what_is_queued_and_drains(folder: Path) -> None:
    """A worker takes the job of an interrupted run; SIGTERM ends it with 0."""
    process = holdfast(folder, "run", "--job", spec(folder, agent="report", input={"topic": "wait"}))
    assert process.stdout is not None
    while "waiting" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    job = job_in(err)
    worker = holdfast(folder, "worker", "app.py")
    done(folder, "signal", job, "go on")
    assert worker.stdout is not None
    while "looked at end" not in worker.stdout.readline():
        assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    assert "working on broken, report" in err
    out, _ = done(folder, "jobs", "--json")
    assert json.loads(out.splitlines()[0])["status"] == "completed"


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        (["run"], 2, "the job to run is not clear"),
        (["run", "--resume"], 2, "the job to run is not clear"),
        (["run", "--job", "nothing.json"], 3, "there is no file nothing.json"),
        (["run", "--resume", "--run-id", "job_x", "--app", "nothing.py"], 3, "there is no file"),
        (["replay", "job_x", "--app", "app.py"], 3, "there is no store"),
        (["fork", "job_x", "--at", "0/look#1"], 3, "there is no store"),
        (["worker", "nothing.py"], 3, "there is no file"),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else None,
)
def test_what_cannot_be_done_is_said(
    desk: CommandDesk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    status: int,
    said: str,
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("HOLDFAST_STORE", "sqlite:///nothing.db")
    Path("app.py").write_text(APP)
    found = desk.type(*arguments)
    assert (found.status, said in found.err) == (status, True), found.err
    assert not Path("nothing.db").exists(), "nothing is left behind"


@pytest.mark.parametrize(
    "text, said",
    [
        ("not JSON", "job.json"),
        ('{"input": {}}', "missing required field `agent`"),
        ('{"agent": "nobody", "app": "app.py"}', "there is no agent called 'nobody'"),
        ('{"agent": "report", "app": "app.py"}', "report needs 'topic'"),
        ('{"agent": "report", "app": "app.py", "input": {"topic": 3}}', "argument 'topic' of report"),
    ],
)
def test_a_spec_that_makes_no_sense_is_said(folder: Path, text: str, said: str) -> None:
    (folder / "job.json").write_text(text)
    process = holdfast(folder, "run", "--job", "job.json")
    _, err = process.communicate(timeout=60)
    assert process.returncode in {2, 3}
    assert said in err
    assert "Traceback" not in err
    assert not (folder / "test.db").exists(), "nothing is left behind"
