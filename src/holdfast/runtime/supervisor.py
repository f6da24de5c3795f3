"""Supervisor: keeps processes that belong together alive; replaces each that dies, and ends all of them together.

    a part dies            another takes its place at once; if that dies too, a little later each time
    a part falls silent    it is frozen, maybe in the middle of a write that the others wait for: killed, then replaced
    a part never starts    no replacement would: all end, with its exit status
    `stop` is called       every part gets a signal, and has its own time to finish; called again, another signal

Each part is in its own process group, so that Ctrl-C in a terminal reaches the supervisor alone, which signals each
part once. The jobs of a dead worker are not handled here: its replacement proves it dead and takes them over.
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
"""A part that lived for this long did not die of the same cause as the one before."""


class SupervisedProcess(msgspec.Struct, frozen=True):
    """One process of the whole. `shared` are open files that it inherits."""

    name: str
    command: tuple[str, ...]
    shared: tuple[int, ...] = ()


class Supervisor:
    """Call `run` once. `tell` gets a sentence about every process that starts, dies or is replaced."""

    def __init__(
        self, parts: Sequence[SupervisedProcess], tell: Callable[[str], None], up: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._tell = tell
        self._up = up
        self._waiting_for = {part.name for part in parts}
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        """Runs until all parts have ended. Returns 0 if they were stopped."""
        tasks = [asyncio.create_task(self._keep_running(part), name=part.name) for part in self._parts]
        return max([await task for task in tasks])

    def stop(self) -> None:
        """Signals every running part to end; none is replaced any more."""
        self._stopping.set()
        for process in self._running.values():
            if process.returncode is None:
                process.terminate()

    async def _keep_running(self, part: SupervisedProcess) -> int:
        """Keeps the part alive until all stop. Returns its exit status, if it never started; else 0."""
        loop, deaths = asyncio.get_running_loop(), 0
        while True:
            began = loop.time()
            process, got_up = await self._run_once(part)
            if self._stopping.is_set():
                return 0
            if not got_up and part.name in self._waiting_for:
                self.stop()
                return abs(process.returncode or 1)
            deaths = 1 if loop.time() - began > LIVED_S else deaths + 1
            wait_s = AGAIN_S[min(deaths, len(AGAIN_S)) - 1]
            self._tell(
                f"{part.name} {process.pid} {_describe_exit(process.returncode)}; {_describe_restart(wait_s)}"
            )
            if await self._wait_for_stop(wait_s):
                return 0

    async def _wait_for_stop(self, within_s: float) -> bool:
        try:
            await asyncio.wait_for(self._stopping.wait(), within_s)
        except TimeoutError:
            return False
        return True

    async def _run_once(self, part: SupervisedProcess) -> tuple[asyncio.subprocess.Process, bool]:
        """Runs the part once. Returns its process, and whether it reported that it was ready."""
        own_end, child_end = socket.socketpair()
        with child_end:
            process = self._running[part.name] = await asyncio.create_subprocess_exec(
                *part.command,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(child_end.fileno(), *part.shared),
                env=os.environ | {VARIABLE: str(child_end.fileno()), PARENT: str(os.getpid())},
                start_new_session=True,
            )
        if self._stopping.is_set():
            process.terminate()
        reader, writer = await asyncio.open_connection(sock=own_end)
        try:
            got_up = await self._listen(part, process, reader)
        finally:
            writer.close()
        await process.wait()
        return process, got_up

    async def _listen(
        self, part: SupervisedProcess, process: asyncio.subprocess.Process, reader: asyncio.StreamReader
    ) -> bool:
        """Reads until the connection is cut by the end of the process. Returns whether it reported that it
        was ready."""
        message = (await reader.readline()).decode()
        if not message:
            return False
        self._tell(f"{part.name} {process.pid} is up{': ' if message.strip() else ''}{message.strip()}")
        self._mark_up(part)
        while True:
            try:
                async with asyncio.timeout(SILENCE_S):
                    if not await reader.readline():
                        return True
            except TimeoutError:
                self._tell(f"{part.name} {process.pid} sent no sign of life for {SILENCE_S:.0f} s: killed")
                process.kill()

    def _mark_up(self, part: SupervisedProcess) -> None:
        if part.name in self._waiting_for:
            self._waiting_for.discard(part.name)
            if not self._waiting_for:
                self._up()


def _describe_exit(status: int | None) -> str:
    if status is None or status >= 0:
        return f"ended with status {status}"
    return f"was killed by {signal.Signals(-status).name}"


def _describe_restart(wait_s: float) -> str:
    return f"another one takes its place{f' in {wait_s:g} s' if wait_s else ''}"
