"""Simulated child processes: a suspect runs alone in one, by the rules of production.

What is real: the claim of a suspect, the parent that hands it over and judges its end (`runtime.isolation`), the worker
of one job (`worker.isolation`), the rules (`model.crash_suspects`). What is simulated: the process, how it
is started, and how its parent learns of its end.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from holdfast.engine.job_runner import JobRun
from holdfast.engine.telemetry import SILENT
from holdfast.model.crash_suspects import STORE_AWAY, lone_label
from holdfast.runtime.isolation import ChildProcesses
from holdfast.store.contract import Store
from holdfast.store.ports.leases import HeldLease
from holdfast.worker.isolation import IsolatedWorker

if TYPE_CHECKING:
    from tests.kill.programs.stage import Life, Stage


class Child:
    """One child process, as its parent sees it: what `asyncio.subprocess.Process` offers, as far as it is used."""

    def __init__(self, stage: Stage, parent: Life, handed: HeldLease) -> None:
        stage.pids += 1
        self.pid = stage.pids
        self.name = lone_label(parent.process.name, self.pid)
        self.parent = parent
        self.handed = handed
        self.life: Life | None = None
        self.status: asyncio.Future[int] = stage.loop.create_future()
        self._stage = stage

    async def wait(self) -> int:
        return await asyncio.shield(self.status)

    def kill(self) -> None:
        self._stage.end_child(self, -signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """SIGTERM and SIGINT drain its worker, as `holdfast isolated` has it; before that has begun, they end it."""
        if self.life is None:
            self.end(-number)
        elif isinstance(self.life.worker, IsolatedWorker):
            worker = self.life.worker
            self.life.process.call_later(0.0, lambda: worker.drain(at_once=number == signal.SIGINT))

    def end(self, status: int) -> None:
        """It has ended like this; its parent hears it, if it lives."""
        if not self.status.done():
            self.status.set_result(status)

    @property
    def exit_status(self) -> int:
        """How it ends if its worker does."""
        worker = None if self.life is None else self.life.worker
        return STORE_AWAY if isinstance(worker, IsolatedWorker) and worker.is_store_away else 0


class SimulatedChildren(ChildProcesses):
    """The child processes of one worker of the stage."""

    def __init__(self, store: Store, life: Life, stage: Stage, start: Callable[[Child], None]) -> None:
        super().__init__(store, stage.clock, "memory:", (), life.process.name, SILENT)
        self._life = life
        self._stage = stage
        self._start_child = start

    async def _start(self, run: JobRun) -> tuple[asyncio.subprocess.Process, socket.socket]:
        child = Child(self._stage, self._life, run.held)
        self._start_child(child)
        if self._draining.is_set():
            child.send_signal(signal.SIGTERM)
        return cast("asyncio.subprocess.Process", child), cast("socket.socket", None)

    async def _listen(self, child: asyncio.subprocess.Process, line: socket.socket) -> str:
        """The name comes over the line before the child claims its job, and the line is cut when it ends."""
        simulated = cast("Child", child)
        await simulated.wait()
        return "" if simulated.life is None else simulated.name
