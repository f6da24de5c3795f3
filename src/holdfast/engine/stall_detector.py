"""Stall detector: finds jobs whose tasks wait for something that cannot come, and reports what they wait for.

A job that makes no progress normally waits for something durable: a call in progress, a timer, a signal, a child, a
person. If it waits for nothing of the kind, its code waits for something that no journal knows: a future that is never
set, a lock that is never released, a socket. From outside such a job only looks busy.

What a task waits for is read from its await chain. Its innermost frame is

    one of ours                      a durable wait
    `asyncio.sleep`                  a timer of the code
    a primitive of asyncio or anyio  another task of the same job (a lock, a queue, an event), if the frame that uses it
                                     is the author's: an I/O library waits for its sockets with the same primitives
    anything else                    foreign: a socket, a thread, a bare future
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.engine.run_outcomes import Stalled

if TYPE_CHECKING:
    from holdfast.engine.replay_scheduler import ReplayScheduler

_OURS: Final = str(Path(__file__).parent.parent)
_ASYNCIO: Final = str(Path(asyncio.__file__).parent)
_LIBRARIES: Final = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_PRIMITIVES: Final = tuple(f"{_ASYNCIO}/{name}.py" for name in ("locks", "queues", "tasks", "taskgroups"))
_SLEEP: Final = asyncio.tasks.sleep.__code__
_WRAPPERS: Final = (
    "anyio/_core/_synchronization.py",
    "anyio/streams/memory.py",
    "holdfast/engine/task_scopes.py",  # `asyncio.wait`
)


REPORT_AFTER_S: Final = 60.0
"""After this time without progress of a run, the log says where its code waits."""

LOOK_EVERY_S: Final = 60.0
"""How often a run is checked when nothing else causes a check."""

HOLD_AFTER_S: Final = 600.0
"""After this time the run ends, and the job is held for a person: it would keep a worker's slot for ever."""

log = logging.getLogger("holdfast.stall")


class StallDetector:
    """Watches one run: `find_stall` is called at rest, while no call is in progress and no timer or durable wait
    is pending."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._progress = (-1, -1)
        self._since = 0.0
        self._reported = False

    def find_stall(
        self, scheduler: ReplayScheduler, tasks: set[asyncio.Task[Any]], *, is_polling: bool
    ) -> Stalled | None:
        """The outcome that ends the run, if it has made no progress for too long."""
        now = scheduler.loop.time()
        # A result that is delivered at once, to the only task of a job, is not counted, but job time advances with it.
        progress = (scheduler.deliveries, scheduler.now_us)
        if self._progress != progress:
            self._progress, self._since, self._reported = progress, now, False
            scheduler.look_later(REPORT_AFTER_S)
            return None
        waited_s = now - self._since
        if waited_s >= HOLD_AFTER_S:
            return Stalled(_report(tasks, is_polling=is_polling))
        if waited_s >= REPORT_AFTER_S and not self._reported:
            self._reported = True
            report = _report(tasks, is_polling=is_polling)
            log.warning(
                "job %s makes no progress: %s.\n%s\n%s",
                self._job_id,
                report["why"],
                format_report(report),
                HINT,
            )
        # This look may be early: caused by mail, or by a timer of the loop that rounds down.
        scheduler.look_later((HOLD_AFTER_S if self._reported else REPORT_AFTER_S) - waited_s)
        return None


HINT: Final = (
    "What the code of an agent waits for must be durable: put a socket, a thread or a queue of another library into a "
    "tool or step, or wait with hf.wait for a signal. If the job stays like this, it is held under `waiting: stalled`."
)


def _report(tasks: set[asyncio.Task[Any]], *, is_polling: bool) -> dict[str, Any]:
    foreign = sum(waits_for_foreign(task) for task in tasks)
    why = "its code waits for something that is not durable, and that has not come"
    if is_polling:
        why = "its code polls for something that does not come"
    elif not foreign:
        why = "its tasks wait for each other"
    return {"why": why, "tasks": format_waits(tasks)}


def format_report(report: dict[str, Any]) -> str:
    """The report as lines of text: each task, and where it waits."""
    lines = []
    for task in report["tasks"]:
        lines.append(f"  task {task['task']}:")
        lines += [f"    {line}" for line in task["stack"]]
    return "\n".join(lines)


def waits_for_foreign(task: asyncio.Task[Any]) -> bool:
    """Whether the task waits for something that is neither durable nor done by another task of the job."""
    if isinstance(getattr(task, "_fut_waiter", None), asyncio.Task):
        return False  # that task is checked itself
    frames = [frame.f_code for frame in walk_await_chain(task.get_coro())]
    if not frames:
        return False
    innermost = frames[-1].co_filename
    if innermost.startswith(_OURS) or frames[-1] is _SLEEP:
        return False
    if isinstance(getattr(task, "_fut_waiter", None), asyncio.tasks._GatheringFuture):  # type: ignore[attr-defined]  # noqa: SLF001 - the future of `gather`
        return False
    if innermost not in _PRIMITIVES:
        return True
    users = [code.co_filename for code in frames if code.co_filename not in _PRIMITIVES]
    while users and users[-1].endswith(_WRAPPERS):
        users.pop()
    return bool(users) and users[-1].startswith(_LIBRARIES) and not users[-1].startswith(_OURS)


def is_library_file(path: str) -> bool:
    """Whether the file belongs to a library: neither to the author nor to Holdfast."""
    return path.startswith(_LIBRARIES) and not path.startswith(_OURS)


def format_waits(tasks: set[asyncio.Task[Any]]) -> list[dict[str, Any]]:
    """Where each task of a job waits: its name, and the lines of its await chain, outermost first."""
    waits = []
    for task in tasks:
        frames = list(walk_await_chain(task.get_coro()))
        stack = [f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}" for frame in frames]
        authored = [line for line in stack if not line.startswith(_OURS)]
        waits.append({"task": getattr(task.get_coro(), "__qualname__", task.get_name()), "stack": authored})
    return sorted(waits, key=lambda wait: str(wait["stack"]))


def walk_await_chain(awaited: Any) -> Iterator[types.FrameType]:
    """The frames of a coroutine and of what it awaits, outermost first."""
    while awaited is not None:
        if inspect.iscoroutine(awaited):
            frame, inner = awaited.cr_frame, awaited.cr_await
        elif inspect.isgenerator(awaited):
            frame, inner = awaited.gi_frame, awaited.gi_yieldfrom
        elif inspect.isasyncgen(awaited):
            frame, inner = awaited.ag_frame, awaited.ag_await
        else:
            # A step of an async generator, or `coroutine.__await__()`: it refers to what it steps through.
            frame, inner = None, next(filter(_has_frame, gc.get_referents(awaited)), None)
        if frame is not None:
            yield frame
        awaited = inner


def _has_frame(value: Any) -> bool:
    return inspect.iscoroutine(value) or inspect.isasyncgen(value)
