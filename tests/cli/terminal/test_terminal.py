"""The command line in a real terminal: what one sees, and what Ctrl-C does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.api.server.api import as_owner
from tests.cli.terminal.screen import Terminal

pytestmark = [pytest.mark.store("sqlite"), pytest.mark.timeout(150)]

MODEL = """
[[reply]]
when = "count"
pace = "1s"
text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen end"

[[reply]]
when = "again"
text = "You first said: {first}"

[[reply]]
text = "I hear you: {said}"
"""

APP = """
import asyncio
import holdfast as hf

app = hf.App()

@app.step(effect="read_only")
async def quick(n: int) -> int:
    return n

@app.step(effect="read_only")
async def endless() -> None:
    await asyncio.get_running_loop().create_future()

@app.agent
async def works() -> int:
    return sum(await asyncio.gather(*(quick(n) for n in range(5))))

@app.agent
async def hangs() -> None:
    await quick(1)
    await endless()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.toml").write_text(MODEL)
    (tmp_path / "app.py").write_text(APP)
    for agent in ("works", "hangs"):
        (tmp_path / f"{agent}.json").write_text(json.dumps({"agent": agent, "app": "app.py", "id": agent}))
    return tmp_path


@pytest.fixture
def up(folder: Path) -> Iterator[tuple[Terminal, str]]:
    """`holdfast up` in a window of its own, and its address."""
    with Terminal(folder, "up", "app.py", "--port", "0") as window:
        url = window.see(r"Holdfast is up at (http://127\.0\.0\.1:\d+)")[1]
        yield window, url


def test_up_ends_with_ctrl_c(up: tuple[Terminal, str]) -> None:
    window, _ = up
    window.see("holdfast chat helper")
    window.ctrl("c")
    assert window.ends() == 0
    assert "Traceback" not in window.shown


def run(folder: Path, *words: str, **environment: str) -> str:
    """A command that ends by itself, and what it showed."""
    with Terminal(folder, *words, **environment) as window:
        status = window.ends()
        assert status == 0, window.shown
        return window.shown


@pytest.mark.parametrize("through", ["the API", "the file"])
def test_chat_shows_tokens_as_they_come(folder: Path, through: str, up: tuple[Terminal, str]) -> None:
    """An answer grows word by word; Ctrl-C ends it and not the chat; Ctrl-D ends the chat, and it can go on later."""
    reached = {"HOLDFAST_API_URL": up[1]} if through == "the API" else {}
    run(folder, "agent", "create", "helper", "--model", f"scripted:{folder / 'model.toml'}", **reached)
    with Terminal(folder, "chat", "helper", "--session", "s1", **reached) as window:
        window.see("> ")
        window.type("hello\n")
        window.see("I hear you: hello")
        window.see("> ")
        window.type("count\n")
        window.see("one two")
        assert "fifteen" not in window.shown, "shown while it is being said"
        window.ctrl("c")
        window.see("cancelled: the conversation is unchanged")
        assert "fifteen" not in window.shown
        window.see("> ")
        window.type("again\n")
        window.see("You first said: hello")
        window.see("> ")
        window.ctrl("d")
        window.see("continue it: holdfast chat helper --session s1")
        assert window.ends() == 0
        assert "Traceback" not in window.shown


def test_run_is_interrupted_and_says_how_to_go_on(folder: Path) -> None:
    with Terminal(folder, "run", "--job", "hangs.json") as window:
        window.see("job hangs")
        window.ctrl("c")
        window.see("holdfast run --resume --run-id hangs")
        assert window.ends() == 130
        assert "Traceback" not in window.shown


def test_trace_draws_what_happened(folder: Path) -> None:
    run(folder, "run", "--job", "works.json")
    shown = run(folder, "trace", "works")
    assert re.search(r"quick.*[━╌]", shown), shown
    assert "completed" in shown
    assert "\x1b[" not in run(folder, "trace", "works", NO_COLOR="1", TERM="dumb")


def test_a_running_job_is_cancelled(folder: Path, up: tuple[Terminal, str]) -> None:
    """Submitted and cancelled from other windows, while `up` drives it."""
    window, url = up
    made = httpx2.post(f"{url}/api/jobs", json={"kind": "hangs"}, headers=as_owner(url), trust_env=False)
    job_id = made.json()["job_id"]
    shown = run(folder, "job", job_id, HOLDFAST_API_URL=url)
    while "running" not in shown:
        shown = run(folder, "job", job_id, HOLDFAST_API_URL=url)
    assert "its worker cancels the job" in run(
        folder, "cancel", job_id, "--why", "enough", HOLDFAST_API_URL=url
    )
    while "cancelled" not in shown:
        shown = run(folder, "job", job_id, HOLDFAST_API_URL=url)
    assert "enough" in shown
    assert window.process.poll() is None
