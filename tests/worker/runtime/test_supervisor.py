"""Processes that are kept alive: frozen ones, ones that keep dying, ones that end when told."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from holdfast.runtime import supervisor as supervising
from holdfast.runtime.supervisor import SupervisedProcess, Supervisor

pytestmark = [pytest.mark.timeout(60), pytest.mark.store("memory")]

READY = "from holdfast.runtime import supervisor_link; supervisor_link.report_ready('here'); "


class Heard:
    """What a supervisor said, and a place to wait for the next of it."""

    def __init__(self, code: str) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()
        self.ups = 0
        part = SupervisedProcess("part", (sys.executable, "-c", READY + code))
        self.supervisor = Supervisor([part], self.lines.put_nowait, self._up)

    def _up(self) -> None:
        self.ups += 1

    async def pid(self) -> int:
        """The process that says next that it is up."""
        while True:
            line = await self.lines.get()
            if "is up: here" in line:
                return int(line.split()[1])

    async def until(self, words: str) -> str:
        while words not in (line := await self.lines.get()):
            pass
        return line


async def test_a_frozen_process_is_killed_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "SILENCE_S", 2.5)
    heard = Heard("import signal; signal.pause()")
    running = asyncio.create_task(heard.supervisor.run())
    first = await heard.pid()
    os.kill(first, signal.SIGSTOP)
    assert f"part {first} sent no sign of life" in await heard.until("no sign of life")
    assert f"part {first} was killed by SIGKILL" in await heard.until("was killed")
    assert await heard.pid() != first
    heard.supervisor.stop()
    assert await running == 0
    assert heard.ups == 1, "said once"


async def test_who_keeps_dying_comes_back_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "AGAIN_S", (0.0, 0.01, 0.02, 3600.0))
    heard = Heard("raise SystemExit(7)")
    running = asyncio.create_task(heard.supervisor.run())
    said = [await heard.until("ended with status 7") for _ in range(4)]
    assert [line.partition("; ")[2] for line in said] == [
        "another one takes its place",
        "another one takes its place in 0.01 s",
        "another one takes its place in 0.02 s",
        "another one takes its place in 3600 s",
    ]
    heard.supervisor.stop()
    assert await running == 0, "nobody waits an hour to stop"


async def test_told_to_stop_it_waits_for_the_parts_end() -> None:
    code = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: (print('bye'), sys.exit(0))); signal.pause()"
    heard = Heard(code)
    running = asyncio.create_task(heard.supervisor.run())
    await heard.pid()
    heard.supervisor.stop()
    assert await running == 0
    assert heard.lines.empty(), "an end that was asked for is no news"
