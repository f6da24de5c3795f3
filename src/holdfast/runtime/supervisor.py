"""Processes that belong together, kept alive: whoever dies is replaced, and everybody ends together.

    a part dies            another takes its place at once; if that dies too, a little later each time
    a part falls silent    it is frozen, maybe in the middle of a write that everybody waits for: killed, then replaced
    a part never got up    nobody would: all end, with its exit status
    told to stop           every part is told once, and has its own time to finish; told again, once more

The parts are in process groups of their own, so that Ctrl-C in a terminal is heard by the supervisor alone, and told to
each part once. What a dead worker held is not this file's business: its replacement proves it dead and takes its jobs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from holdfast.runtime.supervisor_link import BEAT_S, PARENT, VARIABLE

SILENCE_S: Final = 15 * BEAT_S
AGAIN_S: Final = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
LIVED_S: Final = 30.0
"""Who lived so long died of something else than the one before."""


class Part(msgspec.Struct, frozen=True):
    """One process of the whole. `shared` are open files that it inherits."""

    name: str
    command: tuple[str, ...]
    shared: tuple[int, ...] = ()


class Supervisor:
    """Call `run` once. `tell` hears of every process that gets up, dies or is replaced, in a sentence."""

    def __init__(self, parts: Sequence[Part], tell: Callable[[str], None], up: Callable[[], None]) -> None:
        self._parts = parts
        self._tell = tell
        self._up = up
        self._waiting_for = {part.name for part in parts}
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        """All parts have ended; 0 if they were told to."""
        keeping = [asyncio.create_task(self._keep(part), name=part.name) for part in self._parts]
        return max([await kept for kept in keeping])

    def stop(self) -> None:
        """Every part that runs is told to end; none is replaced any more."""
        self._stopping.set()
        for process in self._running.values():
            if process.returncode is None:
                process.terminate()

    async def _keep(self, part: Part) -> int:
        """The part is there until all stop. Its exit status, if it could not even get up; else 0."""
        loop, deaths = asyncio.get_running_loop(), 0
        while True:
            began = loop.time()
            process, got_up = await self._live(part)
            if self._stopping.is_set():
                return 0
            if not got_up and part.name in self._waiting_for:
                self.stop()
                return abs(process.returncode or 1)
            deaths = 1 if loop.time() - began > LIVED_S else deaths + 1
            wait_s = AGAIN_S[min(deaths, len(AGAIN_S)) - 1]
            self._tell(f"{part.name} {process.pid} {_how(process.returncode)}; {_next(wait_s)}")
            if await self._told_to_stop(wait_s):
                return 0

    async def _told_to_stop(self, within_s: float) -> bool:
        try:
            await asyncio.wait_for(self._stopping.wait(), within_s)
        except TimeoutError:
            return False
        return True

    async def _live(self, part: Part) -> tuple[asyncio.subprocess.Process, bool]:
        """One life of the part, and whether it got up in it."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = self._running[part.name] = await asyncio.create_subprocess_exec(
                *part.command,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *part.shared),
                env=os.environ | {VARIABLE: str(theirs.fileno()), PARENT: str(os.getpid())},
                start_new_session=True,
            )
        if self._stopping.is_set():
            process.terminate()
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            got_up = await self._listen(part, process, reader)
        finally:
            writer.close()
        await process.wait()
        return process, got_up

    async def _listen(
        self, part: Part, process: asyncio.subprocess.Process, reader: asyncio.StreamReader
    ) -> bool:
        """Until the line is cut, by whichever end of the process; whether it said that it was ready."""
        said = (await reader.readline()).decode()
        if not said:
            return False
        self._tell(f"{part.name} {process.pid} is up{': ' if said.strip() else ''}{said.strip()}")
        self._has_got_up(part)
        while True:
            try:
                async with asyncio.timeout(SILENCE_S):
                    if not await reader.readline():
                        return True
            except TimeoutError:
                self._tell(f"{part.name} {process.pid} sent no sign of life for {SILENCE_S:.0f} s: killed")
                process.kill()

    def _has_got_up(self, part: Part) -> None:
        if part.name in self._waiting_for:
            self._waiting_for.discard(part.name)
            if not self._waiting_for:
                self._up()


def _how(status: int | None) -> str:
    if status is None or status >= 0:
        return f"ended with status {status}"
    return f"was killed by {signal.Signals(-status).name}"


def _next(wait_s: float) -> str:
    return f"another one takes its place{f' in {wait_s:g} s' if wait_s else ''}"
