"""Event loops of a play: virtual time, simulated processes, tasks that hash by chance.

`StageLoop` turns as asyncio's own loop does, in one function and without sockets: a play is some hundred turns, and a
long run hundreds of millions of them.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import holdfast as hf
from holdfast.testing.simulated_process import ProcessLoop, SimulatedProcess, _Handle
from holdfast.testing.virtual_loop import Deadlock
from tests.kill.programs.oracle import VirtualExecutor
from tests.kill.programs.stores import SpinningSelector, WaitingSelector

PASSES_MAX: Final = 150_000
STEP_MAX_S: Final = 24 * 3600.0
"""The clock moves by at most so much in one pass, as in asyncio."""

LoopKind = Literal["", "hidden", "eager"]

_LOOPS: Final = itertools.count(1)


@dataclass
class Thread:
    """A thread that job code has started: from when to when, by the receivers' ticks."""

    job_id: str
    worker: str
    began: int
    ended: int | None = None


class StageLoop(ProcessLoop):
    """A loop whose tasks hash by chance, as addresses do, and which knows the tasks of each process."""

    def __init__(self, selector: SpinningSelector | WaitingSelector) -> None:
        self.selector = selector
        self.chance = 0
        """Where the hashes of tasks come from."""
        self._number = next(_LOOPS)
        self.tasks: list[tuple[SimulatedProcess, asyncio.Task[Any]]] = []
        self.threads: list[Thread] = []
        self.tick: Callable[[], int] = lambda: 0
        super().__init__(PASSES_MAX, self.selector)
        self._queue: deque[Any] = self._find_queue()
        self._numbers = iter(self._draw, None)  # type: ignore[assignment]
        self.set_default_executor(VirtualExecutor(self._call_later_here))

    def _find_queue(self) -> deque[Any]:
        return self._ready

    def process_here(self) -> SimulatedProcess:
        """The process whose code runs."""
        return self._find_owner(None)

    def _call_later_here(self, seconds: float, callback: Callable[[], None]) -> None:
        """A thread belongs to the process that starts it."""
        process = self.process_here()
        thread = Thread(hf.context().job_id, process.name, self.tick())
        self.threads.append(thread)

        def run() -> None:
            thread.ended = self.tick()
            callback()

        process.call_later(seconds, run)

    def _draw(self) -> int:
        """A hash whose lower bits, which order a set, are the same in every play; no two plays share one."""
        self.chance = (self.chance * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.chance >> 44 | self._number << 20

    def add_task(self, owner: SimulatedProcess, task: asyncio.Task[Any]) -> None:
        super().add_task(owner, task)
        self.tasks.append((owner, task))

    # ── turning ───────────────────────────────────────────────────────────────────────────────────

    def call_soon(  # type: ignore[override]  # the same, in plainer types
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        handle.process = process = self._find_owner(context)
        if not (process.dead or self._over):
            self._queue.append(handle)
        return handle

    def _call_soon(self, callback: Any, args: Any, context: contextvars.Context | None) -> _Handle:
        return self.call_soon(callback, *args, context=context)  # type: ignore[return-value]

    def requeue(self, handles: list[asyncio.Handle]) -> None:
        self._queue.extend(handles)

    def _run_once(self) -> None:
        selector = self.selector
        if not isinstance(selector, SpinningSelector):
            super()._run_once()
            return
        self._passes += 1
        if self._passes_max is not None and self._passes > self._passes_max:
            self._passes_max = None
            msg = f"somebody turns in circles: {self._passes:,} passes, {selector.now:.3f} s on the clock"
            raise Deadlock(msg)
        ready, scheduled = self._queue, self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
        if ready or self._stopping:  # type: ignore[attr-defined]  # asyncio's own, not in its stubs
            selector.move(0.0)
        elif scheduled:
            selector.move(min(scheduled[0].when() - selector.now, STEP_MAX_S))
        else:
            raise Deadlock("nothing is ready and no timer is set")
        end = selector.now + self._clock_resolution  # type: ignore[attr-defined]  # asyncio's own, not in its stubs
        while scheduled and scheduled[0].when() < end:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        root = self.running
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle.process
            if process.dead or (process.thaws_at is not None and process.holds_back(handle)):
                continue
            self.running = process
            try:
                handle._context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                message = f"Exception in callback {handle!r}"
                self.call_exception_handler({"message": message, "exception": error, "handle": handle})
            self.running = root


class HiddenLoop(StageLoop):
    """A loop that the engine cannot look into, as it cannot into uvloop's."""

    def _find_queue(self) -> deque[Any]:
        queue: deque[Any] = self.__dict__.pop("_ready")
        return queue

    def __getattr__(self, name: str) -> Any:
        """asyncio itself finds the ready queue here."""
        if name != "_ready" or sys._getframe(1).f_globals["__name__"].startswith("holdfast.engine"):
            raise AttributeError(name)
        return self._queue


class EagerLoop(StageLoop):
    """A loop whose tasks run as soon as they are made, to their first wait."""

    task_options: ClassVar[dict[str, Any]] = {"eager_start": True}


LOOPS: Final[dict[LoopKind, type[StageLoop]]] = {"": StageLoop, "hidden": HiddenLoop, "eager": EagerLoop}
