"""A worker's own port: a real worker tells how it is, does its jobs meanwhile, and says that it is about to end."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from holdfast.server.special_routes import WORKER_ENDPOINTS
from tests.api.server.api import as_owner
from tests.api.server.test_metrics import Read
from tests.api.server.test_serve import holdfast, serving

pytestmark = pytest.mark.store("sqlite")

APP = """
import asyncio
import holdfast as hf

@hf.step
async def note(text: str) -> str:
    return text

@hf.agent
async def quick(text: str) -> str:
    return await note(text)

@hf.tool(effect="unsafe")
async def delicate() -> str:
    await asyncio.sleep(3)
    return "done"

@hf.agent
async def slow() -> str:
    return await delicate()
"""


@contextmanager
def working(folder: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A worker of its own process, and the address at which it tells how it is."""
    (folder / "app.py").write_text(APP, encoding="utf-8")
    where = f"sqlite:///{folder / 'h.db'}"
    process = holdfast("worker", str(folder / "app.py"), "--store", where, "--metrics-port", "0", *more)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.match(r"health and metrics: (http://127\.0\.0\.1:\d+)/health", line)
        assert found, line
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def test_a_worker_tells_how_it_is(volatile_folder: Path) -> None:
    with working(volatile_folder) as (_, url), serving(f"sqlite:///{volatile_folder / 'h.db'}") as (_, api):
        asked = {"kind": "quick", "input": {"text": "x"}}
        job = httpx2.post(f"{api}/api/jobs", json=asked, headers=as_owner(api)).json()["job_id"]
        done = httpx2.get(f"{api}/api/jobs/{job}", params={"wait_ms": 20_000}, timeout=30).json()
        assert (done["status"], done["output"]) == ("completed", "x")
        read = Read(httpx2.get(f"{url}/metrics").text)
        assert read("holdfast_attempts_total", outcome="completed") == 1
        assert read("holdfast_calls_total", tool="note", outcome="succeeded") == 1
        assert read("holdfast_store_up") == 1
        for path in ("/health", "/health/live", "/health/ready"):
            answer = httpx2.get(f"{url}{path}")
            assert (answer.status_code, answer.json()["status"]) == (200, "ok"), path
        assert httpx2.get(f"{url}/api/jobs").status_code == 404, "nothing about jobs"
        foreign = httpx2.get(f"{url}/metrics", headers={"Host": "evil.example"})
        assert foreign.status_code == 421, "and a page elsewhere cannot read it"


def test_a_worker_that_drains_is_not_ready(volatile_folder: Path) -> None:
    with (
        working(volatile_folder) as (process, url),
        serving(f"sqlite:///{volatile_folder / 'h.db'}") as (_, api),
    ):
        httpx2.post(f"{api}/api/jobs", json={"kind": "slow", "input": {}}, headers=as_owner(api))
        while not Read(httpx2.get(f"{url}/metrics").text)("holdfast_events_total", type="tool_called"):
            assert process.poll() is None
        assert httpx2.get(f"{url}/health/ready").status_code == 200
        process.send_signal(signal.SIGTERM)
        while (ready := httpx2.get(f"{url}/health/ready")).status_code == 200:
            assert process.poll() is None
        assert (ready.status_code, ready.json()["status"]) == (503, "draining")
        assert httpx2.get(f"{url}/health/live").status_code == 200
        assert process.wait(30) == 0, "the call under way came to its end, and the worker to its own"


def test_there_is_nothing_to_change_there() -> None:
    assert {endpoint.method for endpoint in WORKER_ENDPOINTS} == {"GET"}
