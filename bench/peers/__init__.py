"""Other people's systems, each in a process and an environment of its own, driven line by line.

An adapter, `on_NAME.py`, does each piece of work the way its makers mean it to be done, at the durability that the
contest states, and asserts what it got. After a contest it is asked what its database holds, and that must be what was
asked for: who skipped a write has not won anything.

Idle workers poll, some of them a hundred times a second, and a dozen of them beside each other take half of a small
machine from whoever has its turn. So where it is throughput that counts, all processes of a peer are stopped while it
is somebody else's turn. Where it is latency they are not: a poller that is let go looks at once, or a whole interval
later, and neither is what its users see.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from bench.contest import Absent, Contestant
from bench.peers.versions import LOCK
from bench.places import Place

ROOT: Final = Path(__file__).resolve().parents[2]
VENV: Final = ROOT / "build" / "peers"
LOG: Final = ROOT / "build" / "peers.log"
PATIENCE_S: Final = 600.0
FAREWELL_S: Final = 30.0


@functools.cache
def python() -> Path:
    """The peers' interpreter; their packages are installed, each checked by its hash."""
    made, ready = VENV / "bin" / "python", VENV / ".ready"
    if not ready.exists() or ready.read_text() != LOCK.read_text():
        print("installing the peers into build/peers", file=sys.stderr)
        uv = [sys.executable, "-m", "uv", "--quiet"]
        subprocess.run([*uv, "venv", "--clear", "--python", sys.executable, str(VENV)], check=True)
        subprocess.run(
            [*uv, "pip", "install", "--python", str(made), "--require-hashes", "--requirement", str(LOCK)],
            check=True,
        )
        ready.write_text(LOCK.read_text())
    return made


class Lines(Contestant):
    """A program that reads a word, does the work durably, and answers with a line."""

    inside = False
    rests: bool = False
    """Whether it is stopped while it has nothing to do."""

    def __init__(self, place: Place, name: str, work: str, told: dict[str, Any]) -> None:
        super().__init__(place)
        self.name = name  # type: ignore[misc]  # every entry of the catalogue has its own
        self.work = work
        self.rows_per_operation = told.get("rows", 1)
        self.told = {"address": place.address, **told}
        self.answers: list[dict[str, Any]] = []
        self.asked = 0

    def program(self) -> list[str]:
        raise NotImplementedError

    async def open(self) -> None:
        await self.start(self.work)

    async def start(self, work: str) -> None:
        LOG.parent.mkdir(parents=True, exist_ok=True)
        with LOG.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(*self.program(), work, json.dumps(self.told)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,  # of this session: if this process dies, the kernel lets go whom we stopped
            )
        await self._read_answer("ready")
        self._stop_if_resting()

    async def begin(self) -> None:
        await self.say("begin")

    async def operation(self, number: int) -> float | None:
        self.asked += 1
        answer = await self.say("operation")
        if answer is None:
            return None
        self.answers.append(answer)
        took_s: float | None = answer.get("took_s")
        return took_s

    async def end(self) -> None:
        await self.say("end")

    async def say(self, word: str) -> Any:
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        self._process.stdin.write(f"{word}\n".encode())
        answer = await self._read_answer("done")
        self._stop_if_resting()
        return answer

    def _stop_if_resting(self) -> None:
        if self.rests:
            self._signal(signal.SIGSTOP)

    async def _read_answer(self, word: str) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = (await self._process.stdout.readline()).decode()
        said, _, answer = line.rstrip("\n").partition(" ")
        if said != word:
            await self.kill()
            raise Absent(f"said {line!r} in place of {word}; see build/peers.log")
        return json.loads(answer) if answer else None

    async def kill(self) -> None:
        """As kill -9 does, and without a farewell."""
        self._signal(signal.SIGKILL)
        await self._process.wait()

    def _signal(self, which: signal.Signals) -> None:
        """To its workers and servers, too: they are all in the group that began with it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, which)

    async def close(self) -> None:
        await self.check_counts()
        self._signal(signal.SIGCONT)
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(TimeoutError):  # what it was asked for is there, and was counted
            async with asyncio.timeout(FAREWELL_S):
                await self._process.wait()
        await self.kill()

    async def abandon(self) -> None:
        await self.kill()

    async def check_counts(self) -> None:
        """What the database holds is what was asked for."""
        found = await self.say("count") if self.work != "sweep" else None  # it asserts every lap's
        jobs = self.asked * self.told.get("jobs", 1)
        wanted = {"jobs": jobs, "steps": jobs * self.told.get("steps", 1)}
        assert all(wanted.get(key) == value for key, value in (found or {}).items()), (
            self.name,
            found,
            wanted,
        )
        assert not any(answer.get("again") for answer in self.answers), (
            self.name,
            "a recorded step ran again",
        )


class Peer(Lines):
    """A peer's adapter, in the peers' environment."""

    def __init__(self, place: Place, name: str, adapter: str, work: str, told: dict[str, Any]) -> None:
        super().__init__(place, name, work, told)
        self.adapter = adapter

    def program(self) -> list[str]:
        return [str(python()), str(Path(__file__).with_name(f"on_{self.adapter}.py"))]


class Killed(Peer):
    """A history is written once, by a process that is killed before its next step; every lap resumes it in a new
    process, which is killed at the same place."""

    async def open(self) -> None:
        await self.start("history")
        await self.say("operation")
        await self.kill()

    async def begin(self) -> None:
        await self.start(self.work)
        await self.say("begin")

    async def end(self) -> None:
        await self.kill()

    async def close(self) -> None:
        assert not any(answer["again"] for answer in self.answers), (self.name, "a recorded step ran again")
