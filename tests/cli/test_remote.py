"""The command line through a server: a real one, a real worker behind it, and nothing of the store at hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_agents_and_schedules import APP, PROMPT, SCRIPT, Terminal

pytestmark = pytest.mark.store("sqlite")

MORE = """
@app.step(effect="read_only")
def double(number: int) -> int:
    return 2 * number

@app.agent
async def twice(number: int) -> int:
    return await double(number)
"""
OTHERWISE = MORE.replace("await double(number)", "await double(number + 1)")


class Afar:
    """Somebody whose only way to the store is a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = f"sqlite:///{folder / 'far' / 'holdfast.db'}"
        (folder / "far").mkdir()
        (folder / "app.py").write_text(APP + MORE, encoding="utf-8")
        (folder / "script.toml").write_text(SCRIPT, encoding="utf-8")
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")
        }
        self._running: list[subprocess.Popen[str]] = []
        served = self.start("serve", "--port", "0", "--store", self.store)
        assert served.stderr is not None
        for line in served.stderr:
            if "HOLDFAST_API_URL=" in line:
                self.url = line.split("HOLDFAST_API_URL=")[1].split()[0]
                break
        self.environment |= {"HOLDFAST_API_URL": self.url, "HOLDFAST_BY": "ada", "COLUMNS": "200"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words],
            cwd=self.folder,
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        return process

    def work(self) -> None:
        """A worker is there."""
        worker = self.start("worker", "app.py", "--store", self.store)
        assert worker.stderr is not None
        assert "working on" in worker.stderr.readline()

    def type(self, *words: str, said: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            cwd=self.folder,
            env=self.environment,
            input=said,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def json(self, *words: str) -> Any:
        done = self.type(*words, "--json")
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return lines[0] if len(lines) == 1 else lines

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


@pytest.fixture
def afar(tmp_path: Path) -> Iterator[Afar]:
    one = Afar(tmp_path)
    yield one
    one.close()


def test_agents_workers_and_a_chat_through_a_server(afar: Afar) -> None:
    """No file is made here; the worker that is listed answers, and so does the code that it brings."""
    script = f"scripted:{afar.folder / 'script.toml'}"
    made = afar.json("agent", "create", "helper", "--model", script, "--tool", "lookup")
    assert afar.json("agent", "show", "helper") == made
    assert afar.type("agent", "create", "helper").returncode == 4
    assert afar.type("agent", "create", "other", "--model", "hal:9000").returncode == 2
    assert afar.type("agent", "show", "nobody").returncode == 3
    assert "no workers" in afar.type("worker", "list").stderr
    afar.work()
    worker = afar.json("worker", "list")
    assert (worker["state"], worker["holds"]) == ("here", 0)
    assert [agent["name"] for agent in afar.json("agent", "list")] == ["clerk", "helper"]
    talk = afar.type("chat", "helper", "--session", "ada", said="hi\n\nmy order")
    assert (talk.returncode, talk.stdout) == (0, "Hello\ufffd there.\nIt is order 42 at sea.\n")
    assert "continue it: holdfast chat helper --session ada" in talk.stderr
    code = afar.type("chat", "clerk", said="hi\n")
    assert (code.returncode, code.stdout) == (0, "I am code.\n")
    assert afar.type("worker", "drain", "nobody", "--why", "enough").returncode == 3
    assert afar.type("worker", "drain", worker["label"]).returncode == 2, "a reason is needed"
    asked = afar.json("worker", "drain", worker["label"], "--why", "enough", "--by", "ada")
    assert (asked["worker"], asked["draining"]) == (worker["worker"], False)
    assert asked["drain_asked_at"] is not None
    nobody = afar.type("chat", "nobody", said="hi\n")
    assert (nobody.returncode, nobody.stdout) == (3, "")
    assert not list(afar.folder.glob("*.db")), "nothing was made here"


def test_a_chat_on_a_terminal_through_a_server(afar: Afar, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words appear as the model says them; Ctrl-C ends the answer and nothing else."""
    afar.type("agent", "create", "helper", "--model", f"scripted:{afar.folder / 'script.toml'}")
    afar.work()
    monkeypatch.setenv("HOLDFAST_API_URL", afar.url)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    terminal = Terminal(afar.folder, "chat", "helper", "--session", "ada")
    try:
        terminal.see(PROMPT)
        terminal.type("slow\n")
        terminal.see("This takes ")
        assert "day" not in terminal.seen
        terminal.type("\x03")
        terminal.see("cancelled: the conversation is unchanged")
        terminal.type("hi\n")
        terminal.see(f"there.\r\n{PROMPT}")
        terminal.type("\x03")
        terminal.see("continue it: holdfast chat helper --session ada")
        assert terminal.process.wait(30) == 0
    finally:
        terminal.close()


def test_schedules_queues_and_namespaces_through_a_server(afar: Afar) -> None:
    words = ("schedule", "create", "morning", "twice", "0 7 * * *", "--tz", "Europe/Berlin")
    made = afar.json(*words, "--input", '{"number": 4}')
    assert (made["kind"], made["input"], made["time_zone"]) == ("twice", {"number": 4}, "Europe/Berlin")
    assert afar.type(*words).returncode == 4, "with another input it is another one"
    assert afar.json("schedule", "list") == made
    assert "is paused" in afar.type("schedule", "pause", "morning").stderr
    assert afar.json("schedule", "list")["paused"]
    assert "fires next at" in afar.type("schedule", "resume", "morning").stderr
    assert "is removed" in afar.type("schedule", "remove", "morning").stderr
    assert afar.type("schedule", "remove", "morning").returncode == 3
    assert afar.type("schedule", "create", "x", "twice", "whenever").returncode == 2
    assert afar.type("queue", "limit", "default", "--depth", "7").returncode == 0
    assert afar.json("queue", "list") == {"queue": "default", "depth_max": 7, "age_max_us": None}
    assert afar.type("namespace", "create", "tests").returncode == 0
    assert [one["namespace"] for one in afar.json("namespace", "list")] == ["default", "tests"]


def test_a_job_is_forked_and_replayed_through_a_server(afar: Afar) -> None:
    """The journal comes from the server, the code from here; `run` runs here, and says so."""
    (afar.folder / "job.json").write_text('{"agent": "twice", "input": {"number": 4}, "id": "one"}')
    ran = afar.type("run", "--job", "job.json", "--app", "app.py", "--store", afar.store)
    assert (ran.stdout, "HOLDFAST_API_URL" in ran.stderr) == ("8\n", False)
    here = afar.type("run", "--job", "job.json", "--app", "app.py")
    assert (here.stdout, "HOLDFAST_API_URL is ignored" in here.stderr) == ("8\n", True)
    walked = afar.type("replay", "one")
    assert walked.returncode == 0, walked.stderr
    assert "returns" in walked.stdout
    assert "no code was run" in walked.stderr
    same = afar.type("replay", "one", "--app", "app.py")
    assert (same.returncode, "identical: 1 steps" in same.stdout) == (0, True)
    (afar.folder / "other.py").write_text(APP + OTHERWISE, encoding="utf-8")
    differs = afar.type("replay", "one", "--app", "other.py")
    assert (differs.returncode, "different" in differs.stdout) == (1, True)
    forked = afar.json("fork", "one", "--at", "0/double#1", "--id", "two")
    assert forked == {"job_id": "two", "created": True}
    assert afar.json("fork", "one", "--at", "0/double#1", "--id", "two")["created"] is False
    assert afar.json("job", "two")["status"] == "pending"
