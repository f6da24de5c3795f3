"""`holdfast agent`, `chat`, `schedule` and `queue` as a person types them; chat also on a real terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.model.jobs import JobFilter
from holdfast.model.schedule import Schedule
from holdfast.model.states import Status
from holdfast.model.time import HOUR
from holdfast.runtime import open_store
from holdfast.store.clock import SystemClock
from tests.cli.conftest import CommandDesk

pytestmark = pytest.mark.store("sqlite")

APP = """
import holdfast as hf

app = hf.App()

@app.tool(effect="read_only")
async def lookup(order: str) -> str:
    return f"order {order} at sea"

@app.session
async def clerk(turn: hf.Turn) -> str:
    return "I am code."
"""
SCRIPT = """
[[reply]]
when = "order"
calls = [{ tool = "lookup", args = { order = "42" } }]

[[reply]]
after = "lookup"
text = "It is {result}."

[[reply]]
when = "slow"
text = "This takes for ever and a day"
pace = "2s"

[[reply]]
text = "Hello\\u001b[2J there."
"""

TAKES_THE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "holdfast", *sys.argv[1:]])
"""
PROMPT = "\x1b[1m> "


@pytest.fixture
def folder(desk: CommandDesk, tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "script.toml").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def helper(desk: CommandDesk, folder: Path) -> None:
    app, script = str(folder / "app.py"), f"scripted:{folder / 'script.toml'}"
    made = desk.type("agent", "create", "helper", "--model", script, "--tool", "lookup", "--app", app)
    assert (made.status, "holdfast chat helper" in made.err) == (0, True)


def test_agents_are_created_listed_and_shown(desk: CommandDesk, folder: Path) -> None:
    helper(desk, folder)
    plain = ("agent", "create", "plain", "--instructions", "Be brief.", "--json")
    first, again = desk.type(*plain), desk.type(*plain)
    assert first.json == again.json, "the same again is the same agent"
    assert first.json["configuration"]["instructions"] == "Be brief."
    assert desk.type("agent", "create", "plain").status == 4, "the same name with other settings"
    unknown = desk.type("agent", "create", "x", "--tool", "teleport", "--app", str(folder / "app.py"))
    assert (unknown.status, "'teleport'" in unknown.err) == (2, True)
    assert desk.type("agent", "create", "x", "--model", "hal:9000").status == 2
    assert [row["name"] for row in desk.type("agent", "list", "--json").lines] == ["helper", "plain"]
    assert "built-in script" in desk.type("agent", "list").out
    page = desk.type("agent", "list", "--json", "--limit", "1")
    cursor = re.search(r"--cursor (\S+)", page.err)
    assert cursor is not None
    assert [row["name"] for row in desk.type("agent", "list", "--json", "--cursor", cursor[1]).lines] == [
        "plain"
    ]
    by_id = desk.type("agent", "show", first.json["agent_id"], "--json")
    assert by_id.json == first.json == desk.type("agent", "show", "plain", "--json").json
    assert desk.type("agent", "show", "nobody").status == 3


def chat(desk: CommandDesk, folder: Path, said: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "chat", *words],
        cwd=folder,
        input=said,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_chat_through_a_pipe(desk: CommandDesk, folder: Path) -> None:
    """Lines in, answers out, and nothing else on stdout; what a model says does not drive the terminal."""
    helper(desk, folder)
    first = chat(desk, folder, "hi\n\nmy order", "helper", "--session", "ada", "--app", "app.py")
    assert (first.returncode, first.stdout) == (0, "Hello\ufffd there.\nIt is order 42 at sea.\n")
    assert f"holdfast chat helper --session ada --store {desk.where} --app app.py" in first.stderr
    nobody = chat(desk, folder, "hi\n", "nobody")
    assert (nobody.returncode, "Agents: helper" in nobody.stderr) == (3, True)
    code = chat(desk, folder, "hi\n", "clerk", "--app", "app.py")
    assert (code.returncode, code.stdout) == (0, "I am code.\n")
    desk.type("queue", "limit", "default", "--depth", "0")
    full = chat(desk, folder, "hi\n", "helper", "--app", "app.py")
    assert (full.returncode, full.stdout, "queue 'default' is full" in full.stderr) == (1, "", True)


class Terminal:
    """A real terminal with somebody at it."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKES_THE_TERMINAL, *words],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""

    def see(self, text: str) -> None:
        """This has appeared."""
        while text not in self.seen:
            ready, _, _ = select.select([self._ours], [], [], 30)
            assert ready, f"{text!r} did not appear after {self.seen!r}"
            self.seen += os.read(self._ours, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(desk: CommandDesk, folder: Path) -> Iterator[Terminal]:
    helper(desk, folder)
    one = Terminal(folder, "chat", "helper", "--session", "ada", "--app", "app.py")
    yield one
    one.close()


def test_ctrl_c_ends_the_turn_and_keeps_the_session(desk: CommandDesk, terminal: Terminal) -> None:
    """Goal: an answer appears as it comes, Ctrl-C ends it alone, and the conversation goes on. Method: a model that
    says a word every two seconds, on a real terminal; the key is pressed when the first word is there."""
    terminal.see(PROMPT)
    terminal.type("slow\n")
    terminal.see("This takes ")
    assert "day" not in terminal.seen
    terminal.type("\x03")
    terminal.see("cancelled: the conversation is unchanged")
    terminal.type("my order\n")
    terminal.see(f"It is order 42 at sea.\r\n{PROMPT}")
    terminal.type("\x03")
    terminal.see("continue it: holdfast chat helper --session ada")
    assert terminal.process.wait(30) == 0

    async def look() -> list[Status]:
        store = await open_store(desk.where)
        try:
            return [record.status for record in await store.jobs.list(JobFilter(session_id="ada"))]
        finally:
            await store.close()

    assert asyncio.run(look()) == [Status.COMPLETED, Status.CANCELLED], "newest first"


def test_schedules_are_listed_paused_resumed_and_removed(desk: CommandDesk) -> None:
    missing = desk.type("schedule", "list")
    assert missing.status == 3, "looking makes no store"
    soon = SystemClock().wall_us() + HOUR

    async def put() -> None:
        store = await open_store(desk.where)
        for name in ("report", "tidy"):
            one = Schedule(
                schedule_id=name, kind="work", cron="0 7 * * *", next_at=soon, time_zone="Asia/Tokyo"
            )
            await store.schedules.put(one)
        await store.close()

    asyncio.run(put())
    first, second = desk.type("schedule", "list", "--json").lines
    assert (first["schedule_id"], first["next_at"], first["paused"]) == ("report", soon, False)
    assert second["time_zone"] == "Asia/Tokyo"
    assert desk.type("schedule", "pause", "report").status == 0
    assert "paused" in desk.type("schedule", "list").out
    assert "fires next at" in desk.type("schedule", "resume", "report").err
    resumed = desk.type("schedule", "list", "--json", "--limit", "1").json
    assert not resumed["paused"]
    assert resumed["next_at"] != soon, "from its own next instant on"
    assert desk.type("schedule", "remove", "report").status == 0
    for word in ("pause", "resume", "remove"):
        assert desk.type("schedule", word, "report").status == 3
    assert [row["schedule_id"] for row in desk.type("schedule", "list", "--json").lines] == ["tidy"]


def test_queues_have_limits(desk: CommandDesk) -> None:
    desk.type("agent", "create", "helper")
    assert (
        desk.type("queue", "list").err
        == "no queue has limits. Set one: holdfast queue limit QUEUE --depth 10000\n"
    )
    assert desk.type("queue", "limit", "slow", "--depth", "3", "--age", "5m").status == 0
    assert desk.type("queue", "list", "--json").json == {
        "queue": "slow",
        "depth_max": 3,
        "age_max_us": 300_000_000,
    }
    assert "5 m" in desk.type("queue", "list").out
    assert desk.type("queue", "limit", "slow", "--age", "soon").status == 2
    assert desk.type("queue", "limit", "slow").status == 0
    assert (
        desk.type("queue", "list").err
        == "no queue has limits. Set one: holdfast queue limit QUEUE --depth 10000\n"
    )
