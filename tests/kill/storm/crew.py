"""Crew: the worker processes of a storm. Some are started directly and replaced here, as a supervisor would; the others
are parts of one `holdfast up`, which replaces them itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator

from tests.kill.processes.stage import Child, Stage
from tests.support.project import ROOT

APP = ROOT / "tests/kill/storm/app.py"
WORKS = re.compile(r"^working on ", re.MULTILINE)
UP = re.compile(r"^ +(worker\S*) (\d+) is up", re.MULTILINE)
DOWN = re.compile(r"^ +(worker\S*) (\d+) (?:was killed|ended|has been silent)", re.MULTILINE)


class Slot:
    """Place of one worker that was started directly. `spared`: the worker takes blocking jobs, too, and is rarely
    disturbed."""

    def __init__(self, child: Child, *, spared: bool) -> None:
        self.child = child
        self.spared = spared
        self.stopped_at: float | None = None

    @property
    def pid(self) -> int:
        return self.child.process.pid

    @property
    def lives(self) -> bool:
        return self.child.process.returncode is None

    @property
    def is_ready(self) -> bool:
        return self.lives and self.stopped_at is None and WORKS.search(self.child.log) is not None


class Crew:
    """`deaths` are workers that ended without having been killed here."""

    def __init__(self, stage: Stage, *, direct: int, supervised: int, spared: int = 0) -> None:
        self.slots: list[Slot] = []
        self.deaths = 0
        self._stage = stage
        self._sizes = (direct, supervised, spared)
        self._up: Child | None = None
        self._killed: set[int] = set()

    async def start(self) -> None:
        direct, supervised, spared = self._sizes
        if supervised:
            workers = ("--workers", str(supervised))
            self._up = await self._stage.command("up", str(APP), "--port", "0", *workers)
        for nth in range(direct + spared):
            is_spared = nth < spared
            self.slots.append(Slot(await self._start(spared=is_spared), spared=is_spared))
        size = sum(self._sizes)
        deadline = time.monotonic() + 60
        while len(list(self.ready())) < size:
            assert time.monotonic() < deadline, f"not all workers got up: {[s.child.log for s in self.slots]}"
            await asyncio.sleep(0.05)

    async def _start(self, *, spared: bool) -> Child:
        queues = ("--queue", "default", "--queue", "slow") if spared else ("--queue", "default")
        return await self._stage.command("worker", str(APP), *queues)

    async def replace_dead(self) -> None:
        """Start a worker in each place whose worker has ended."""
        for slot in self.slots:
            if not slot.lives:
                self.deaths += slot.pid not in self._killed
                slot.child, slot.stopped_at = await self._start(spared=slot.spared), None

    def ready(self) -> Iterator[int]:
        """The pids of workers that are at work."""
        yield from (slot.pid for slot in self.slots if slot.is_ready)
        yield from self.supervised()

    def supervised(self) -> list[int]:
        """The pids of workers that `holdfast up` has reported as up and not as ended."""
        if self._up is None:
            return []
        up = {name: int(pid) for name, pid in UP.findall(self._up.log)}
        down = {int(pid) for _, pid in DOWN.findall(self._up.log)}
        return [pid for pid in up.values() if pid not in down and pid not in self._killed]

    def slot_of(self, pid: int) -> Slot | None:
        return next((slot for slot in self.slots if slot.pid == pid), None)

    async def kill(self, *pids: int) -> float:
        """Kill these workers in the same instant, and see them end; the instant."""
        at = time.monotonic()
        self._killed.update(pids)
        for pid in pids:
            _send(pid, signal.SIGKILL)
        for pid in pids:
            slot = self.slot_of(pid)
            if slot is not None:
                await slot.child.process.wait()
        return at

    def stop(self, pid: int) -> None:
        slot = self.slot_of(pid)
        assert slot is not None
        slot.stopped_at = time.monotonic()
        _send(pid, signal.SIGSTOP)

    def resume(self, slot: Slot) -> None:
        slot.stopped_at = None
        _send(slot.pid, signal.SIGCONT)

    def said(self) -> Iterator[str]:
        """What the workers that are there now have written, for a report."""
        for slot in self.slots:
            yield slot.child.log
        if self._up is not None:
            yield self._up.log


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
