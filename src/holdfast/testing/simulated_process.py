"""Simulated processes: many on one loop with virtual time, each of which can be killed or frozen at any instant.

    with ProcessLoop() as loop:
        worker = loop.process("worker-1")
        worker.start(work())
        worker.kill()                         # nothing of it ever runs again, not even a `finally`
        worker.freeze(40.0)                   # or: it pauses, and continues as if nothing had happened

The owner of a callback is fixed when it is scheduled: the process that its context names, else the process that runs.
So a reply that A's code sets on B's future belongs to B, and a callback in the bare context that the engine uses in
some places keeps its owner. The callbacks of a dead process are dropped; those of a frozen one are kept in order until
it thaws.

A killed process must not clean up. Its tasks are never cancelled (that would run their `finally` blocks): they are
kept, and closed only with the loop, after the test has been judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final

from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.testing.virtual_loop import Deadlock, SimLoop, SocketlessSelector, VirtualSelector

_PROCESS: Final[contextvars.ContextVar[SimulatedProcess | None]] = contextvars.ContextVar(
    "holdfast_process", default=None
)


class SimulatedProcess:
    """One process. `ProcessLoop.process` makes it."""

    def __init__(self, loop: ProcessLoop, name: str) -> None:
        self.loop = loop
        self.name = name
        self.dead = False
        self.thaws_at: float | None = None
        self._kept: list[asyncio.Handle] = []
        self._context = contextvars.copy_context()
        self._context.run(_PROCESS.set, self)

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run the coroutine in this process."""
        return self._context.copy().run(self.loop.create_task, coroutine)

    def adopt(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run the coroutine in this process, with a copy of the caller's context."""
        context = contextvars.copy_context()
        context.run(_PROCESS.set, self)
        return self.loop.create_task(coroutine, context=context)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> asyncio.Handle:
        """Schedule a callback of this process, whichever process runs now."""
        return self.loop.call_later(seconds, callback, *args, context=self._context)

    def kill(self) -> None:
        """Kill the process: nothing of it runs any more. Code that runs at this moment continues to its next await, and
        no port answers it."""
        self.dead = True
        self._kept.clear()

    def freeze(self, seconds: float) -> None:
        """Pause the process for so long; callbacks that come due meanwhile run when it continues."""
        if self.dead:
            return
        until = self.loop.time() + seconds
        if self.thaws_at is None or until > self.thaws_at:
            self.thaws_at = until
            self.loop.root.call_later(seconds, self._thaw_at, until)

    def _thaw_at(self, until: float) -> None:
        if self.thaws_at == until:
            self.thaw()

    def thaw(self) -> None:
        """Thaw the process."""
        self.thaws_at = None
        handles, self._kept = self._kept, []
        self.loop.requeue(handles)

    def holds_back(self, handle: asyncio.Handle) -> bool:
        """Whether this callback must not run now."""
        if self.dead:
            return True
        if self.thaws_at is None:
            return False
        self._kept.append(handle)
        return True

    async def must_live(self) -> None:
        """Wait until the process is not frozen; for a dead process this never returns."""
        if self.dead:
            await self.loop.create_future()
        if self.thaws_at is not None:
            await sleep_on_loop(0.0)  # held back until it thaws


class _Handle(asyncio.Handle):
    __slots__ = ("process",)
    process: SimulatedProcess

    def _run(self) -> None:
        process = self.process
        if not process.holds_back(self):
            before, process.loop.running = process.loop.running, process
            super()._run()
            process.loop.running = before


class _Timer(asyncio.TimerHandle):
    __slots__ = ("process",)
    process: SimulatedProcess

    def _run(self) -> None:
        process = self.process
        if not process.holds_back(self):
            before, process.loop.running = process.loop.running, process
            super()._run()
            process.loop.running = before


class _Task(asyncio.Task[Any]):
    """Hashed by creation order, so that sets of tasks have the same order in every run."""

    def __init__(self, number: int, *args: Any, **options: Any) -> None:
        self.number = number
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class _TaskFactory:
    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop

    def __call__(self, _loop: Any, coroutine: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        return self._loop.make_task(_Task, self._loop.number_task(), coroutine, **options)

    def make_job_task(
        self,
        _loop: Any,
        job_task: Callable[..., asyncio.Task[Any]],
        coroutine: Coroutine[Any, Any, Any],
        task_scope: Any,
        options: dict[str, Any],
    ) -> asyncio.Task[Any]:
        """Called by the engine's own task factory: it makes its tasks, and they are registered here."""
        return self._loop.make_task(job_task, coroutine, task_scope, **options)


class ProcessLoop(SimLoop):
    """A SimLoop whose callbacks belong to processes. `root` is the simulation itself: it never dies.

    `passes_max`: limit on the iterations of the loop; more raise `Deadlock` too, because the processes are busy without
    progress.
    """

    def __init__(self, passes_max: int | None = None, selector: VirtualSelector | None = None) -> None:
        self._passes = 0
        self._passes_max = passes_max
        self._numbers = itertools.count(1)
        self._all_tasks: list[asyncio.Task[Any]] = []
        self._over = False
        self.complaints: list[str] = []
        self.root = SimulatedProcess(self, "root")
        self.running = self.root
        super().__init__(SocketlessSelector() if selector is None else selector)
        factory: Any = _TaskFactory(self)
        self.set_task_factory(factory)
        self.set_exception_handler(lambda _loop, about: self._record_complaint(about))

    def process(self, name: str) -> SimulatedProcess:
        return SimulatedProcess(self, name)

    # The queues of asyncio's own loops, which the replay scheduler of a job reads too.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def requeue(self, handles: list[asyncio.Handle]) -> None:
        self._ready.extend(handles)

    # ── ownership ─────────────────────────────────────────────────────────────────────────────────

    def _find_owner(self, context: contextvars.Context | None) -> SimulatedProcess:
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        return process or self.running

    def _call_soon(
        self, callback: Callable[..., object], args: Any, context: contextvars.Context | None
    ) -> _Handle:
        handle = _Handle(callback, args, self, context)
        handle.process = self._find_owner(context)
        if not (handle.process.dead or self._over):
            self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]  # the same, in plainer types
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> _Timer:
        timer = _Timer(when, callback, args, self, context)
        timer.process = self._find_owner(context)
        if not (timer.process.dead or self._over):
            heapq.heappush(self._scheduled, timer)
            timer._scheduled = True  # type: ignore[attr-defined]  # noqa: SLF001 - the loop's own bookkeeping
        return timer

    task_options: ClassVar[dict[str, Any]] = {}
    """Further options for new tasks."""

    def make_task(
        self,
        make: Callable[..., asyncio.Task[Any]],
        *args: Any,
        context: contextvars.Context | None = None,
        **options: Any,
    ) -> asyncio.Task[Any]:
        """Make a task of the process that runs now, or of the one that the context names."""
        owner = self._find_owner(context)
        if context is None:
            context = contextvars.copy_context()
            context.run(_PROCESS.set, owner)
        task = make(*args, loop=self, context=context, **self.task_options, **options)
        self.add_task(owner, task)
        return task

    def add_task(self, _owner: SimulatedProcess, task: asyncio.Task[Any]) -> None:
        """A task of this process was created."""
        self._all_tasks.append(task)

    def number_task(self) -> int:
        return next(self._numbers)

    def _run_once(self) -> None:
        self._passes += 1
        if self._passes_max is not None and self._passes > self._passes_max:
            self._passes_max = None
            msg = f"somebody turns in circles: {self._passes:,} passes, {self.time():.3f} s on the clock"
            raise Deadlock(msg)
        super()._run_once()  # type: ignore[misc]  # asyncio's own, not in its stubs

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def _record_complaint(self, about: dict[str, Any]) -> None:
        if not self._over:
            self.complaints.append(f"{about.get('message')}: {about.get('exception')!r}")

    def close(self) -> None:
        """Close the loop; the tasks of dead processes are closed silently."""
        if not self.is_closed():
            self.run_until_complete(self._close_tasks())
        super().close()

    async def _close_tasks(self) -> None:
        self._over = True
        for task in self._all_tasks:
            if task.done() or task is asyncio.current_task():
                continue
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - it is meant to be pending
            coroutine: Any = task.get_coro()
            for _ in range(100):  # a task that awaits again in a `finally` is closed again
                with contextlib.suppress(BaseException):
                    coroutine.close()
                    break
        self._all_tasks.clear()
        self._over = False
