"""`holdfast up` as people start it: an API and a worker, each replaced when it dies, all ended together."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from holdfast.client.local_token import find_token
from tests.api.server.api import as_owner

pytestmark = [pytest.mark.store("sqlite"), pytest.mark.timeout(100)]

APP = """
import asyncio
from pathlib import Path
import holdfast as hf

app = hf.App()

@app.step(effect="read_only")
async def first():
    Path("first").open("a").write("x")

@app.step(effect="read_only")
async def second():
    Path("second").open("a").write("x")
    if not Path("go-on").exists():
        await asyncio.get_running_loop().create_future()
    return "done"

@app.agent
async def slow() -> str:
    await first()
    return await second()
"""


class Up:
    """One `holdfast up`, and what it says."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "holdfast", "up", *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.said = ""

    def hear(self, pattern: str) -> re.Match[str]:
        """The first line from here on that fits."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"it never said {pattern!r}, but:\n{self.said}")

    def rest(self) -> str:
        assert self.process.stderr is not None
        self.said += self.process.stderr.read()
        return self.said


@contextmanager
def up(folder: Path, *arguments: str) -> Iterator[Up]:
    (folder / "app.py").write_text(APP)
    started = Up(folder, *arguments)
    try:
        yield started
    finally:
        with started.process:  # closes what it said, and waits for it
            started.process.kill()
            started.rest()


def started(one: Up) -> tuple[int, int, str]:
    """The processes of API and worker, and the address, once all is up."""
    pids: dict[str, int] = {}
    while len(pids) < 2:
        found = one.hear(r"(api|worker) (\d+) is up")
        pids[found[1]] = int(found[2])
    url = one.hear(r"Holdfast is up at (http://127\.0\.0\.1:\d+), on sqlite:///holdfast\.db")[1]
    return pids["api"], pids["worker"], url


def submit(url: str) -> str:
    response = httpx2.post(f"{url}/api/jobs", json={"kind": "slow"}, headers=as_owner(url), trust_env=False)
    assert response.status_code == 201, response.text
    return str(response.json()["job_id"])


def ask(url: str, path: str, **query: int) -> httpx2.Response:
    """The answer, over a connection of its own: the API may be another process than before."""
    return httpx2.get(url + path, params=query, timeout=60, trust_env=False)


def test_who_is_killed_is_replaced_and_the_job_goes_on(tmp_path: Path) -> None:
    with up(tmp_path, "app.py", "--port", "0") as one:
        api, worker, url = started(one)
        token = one.hear(rf"{re.escape(url)}/#token=(\S+)")[1]
        assert token == find_token(url)
        made = submit(url)
        while not (tmp_path / "second").exists():
            ask(url, f"/api/jobs/{made}", wait_ms=50)
        while "step_finished" not in ask(url, f"/api/jobs/{made}/events").text:
            pass
        os.kill(api, signal.SIGKILL)
        job = ask(url, f"/api/jobs/{made}").json()
        assert job["status"] == "running", "the port stayed open meanwhile"
        one.hear(rf"api {api} was killed by SIGKILL; another one takes its place")
        assert find_token(url) == token, "the link that was printed opens the next one, too"
        (tmp_path / "go-on").touch()
        os.kill(worker, signal.SIGKILL)
        one.hear(rf"worker {worker} was killed by SIGKILL; another one takes its place")
        one.hear(r"worker \d+ is up")
        job = ask(url, f"/api/jobs/{made}", wait_ms=30_000).json()
        assert (job["status"], job["output"], job["takeovers"]) == ("completed", "done", 0)
        assert (tmp_path / "first").read_text() == "x", "a finished step is not run again"
        one.process.send_signal(signal.SIGINT)
        assert one.process.wait(30) == 0
        assert "Traceback" not in one.rest()


def test_a_supervisor_that_is_killed_leaves_nobody_behind(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0") as one:
        *_, url = started(one)
        one.process.kill()
        one.rest()  # until the last of them has closed its end
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(url, trust_env=False)


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        (("nothing.py",), 3, "there is no file"),
        (("--store", "mysql://here"), 2, "mysql"),
        (("--store", "memory:"), 2, "belongs to one process"),
    ],
)
def test_what_cannot_get_up_says_why_once(
    tmp_path: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    with up(tmp_path, *arguments, "--port", "0") as one:
        assert one.process.wait(60) == status
        assert one.rest().count(said) == 1
        assert "is up at" not in one.said


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0") as one:
        *_, url = started(one)
        with up(tmp_path, "--port", url.rpartition(":")[2]) as other:
            assert other.process.wait(60) == 2
            assert "--port" in other.rest()


def test_a_supervisor_that_is_killed_leaves_no_stopped_worker_behind(tmp_path: Path) -> None:
    """Stop the worker and kill the supervisor beside it: the worker wakes and drains."""
    with up(tmp_path, "app.py", "--port", "0") as one:
        _, worker, _ = started(one)
        os.kill(worker, signal.SIGSTOP)
        try:
            one.process.kill()
            assert "stopping: calls in progress finish, jobs are released" in one.rest(), (
                "until the last has closed its end"
            )
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
