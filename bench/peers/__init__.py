"""Other people's systems, each in a process and an environment of its own, driven line by line."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.contest import Contestant

ROOT: Final = Path(__file__).resolve().parents[2]
VENV: Final = ROOT / "build" / "peers"
LOCK: Final = ROOT / "requirements" / "peers.txt"


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


class Peer(Contestant):
    """A program that reads a line, does the work durably, and answers with a line."""

    program: str

    async def open(self) -> None:
        path = self.place.address.removeprefix("sqlite:///")
        program = Path(__file__).with_name(self.program)
        self._process = await asyncio.create_subprocess_exec(
            str(python()),
            str(program),
            path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.lap = 0
        await self._answered("ready")

    async def begin(self) -> None:
        self.lap += 1

    async def operation(self, number: int) -> None:
        await self.told(f"{self.lap} {number}")

    async def told(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._answered("done")

    async def _answered(self, word: str) -> None:
        assert self._process.stdout is not None
        answer = await self._process.stdout.readline()
        assert answer.decode() == f"{word}\n", answer

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


class LangGraphChat(Peer):
    """A graph of one node over its SQLite checkpointer, with the durability that waits for each checkpoint."""

    name = "langgraph 1, SqliteSaver, durability sync"
    program = "langgraph_chat.py"
