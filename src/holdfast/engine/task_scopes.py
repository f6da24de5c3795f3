"""Task scopes: which task of a job's program a piece of running code belongs to.

Every asyncio task that job code starts gets its own scope when it is created: the name of its coroutine, a digest of
its arguments, and a number among those of the same name and arguments that the same task has started. The event loop's
task factory reports new tasks, so `gather`, `TaskGroup`, `wait_for` and anyio need no wrappers.

A job's task hashes by its place, which has no names of functions in it (`StepScope.place_hash`). So a set of tasks
(`done` of `asyncio.wait`, the tasks of a `TaskGroup` that is ended) has one order in every run. Two tasks may share a
slot of the set; then the one that was put in first comes first. So `asyncio.wait` and `as_completed` get the tasks of
job code in the order of their places, and not in the order of their creation, which may follow from the hash seed.
`as_completed` makes its tasks from a set of coroutines, which have no order that could be repeated; in job code it
gets tasks.

A cancel is the code's own decision only if job code made it. A task that is cancelled from anywhere else (the end of
`asyncio.run`, Ctrl-C, an application that shuts down) ends the run: nothing is recorded about its calls. Tasks started
*inside* a step, tool or wrapped client belong to that call: they get no scope, and a durable call from one of them is
an error, because the next run could not identify it.

Only its task refers to a scope. The scope refers to the run, and the run to its tasks: in a table beside them, even
one with weak keys, each would keep the other in memory for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import datetime as dt
import decimal
import enum
import functools
import hashlib
import inspect
import pathlib
import types
import uuid
from collections.abc import Coroutine, Iterator
from typing import Any, Final, Protocol

from holdfast.engine.replay_scheduler import JOB, InsideCall, ReplayScheduler
from holdfast.errors import InvalidMove
from holdfast.model.step_keys import StepScope


class Run(Protocol):
    """The run of a job, as its tasks see it."""

    @property
    def scheduler(self) -> ReplayScheduler: ...

    @property
    def run_number(self) -> int: ...

    @property
    def tasks(self) -> set[asyncio.Task[Any]]:
        """The tasks that run the job's code."""
        ...

    @property
    def callback_scope(self) -> TaskScope:
        """The scope of tasks that a callback starts: a callback belongs to no task."""
        ...

    def note_cancel(self, caller: ReplayScheduler | InsideCall | None) -> None:
        """Called when this code is about to cancel a task of the job."""
        ...


class TaskScope:
    """Scope of a task of a job, and the call that it is inside of, if any."""

    __slots__ = ("execution", "inside", "scope")

    def __init__(self, execution: Run, scope: StepScope) -> None:
        self.execution = execution
        self.scope = scope
        self.inside: str | None = None

    @contextlib.contextmanager
    def within(self, step_key: str) -> Iterator[None]:
        """Marks the code in the block as a call's own code, not the job's."""
        token = self.enter(step_key)
        try:
            yield
        except GeneratorExit:
            # The task was left behind with its loop and is being garbage-collected, in a context that is not its own.
            self.inside = None
            raise
        except BaseException:
            self.leave(token)
            raise
        self.leave(token)

    @contextlib.contextmanager
    def enter_inner(self, name: str) -> Iterator[None]:
        """Puts the task into a scope of this name within its own, for the block."""
        outer, self.scope = self.scope, self.scope.inner(name)
        try:
            yield
        finally:
            self.scope = outer

    def enter(self, step_key: str) -> contextvars.Token[Any]:
        """Marks code as a call's own, until `leave`."""
        self.inside = step_key
        return JOB.set(self.execution.scheduler.inside)

    def leave(self, token: contextvars.Token[Any]) -> None:
        JOB.reset(token)
        self.inside = None


_SCOPE: Final = "_holdfast_scope"
"""Attribute of a task that holds its scope."""


class JobTask(asyncio.Task[Any]):
    """A task that runs a job's code."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], task_scope: TaskScope, **options: Any) -> None:
        setattr(self, _SCOPE, task_scope)
        # The low bits are the same in every run, and decide the order of a set; the high bits distinguish runs.
        self._hash = task_scope.execution.run_number << 32 | task_scope.scope.place_hash
        tasks = task_scope.execution.tasks
        tasks.add(self)  # before it is made: an eager task already runs in its constructor
        super().__init__(coroutine, **options)
        if self.done():
            tasks.discard(self)
        else:
            self.add_done_callback(tasks.discard)

    def __hash__(self) -> int:
        return self._hash

    def cancel(self, msg: Any = None) -> bool:
        task_scope: TaskScope = getattr(self, _SCOPE)
        if not self.done():
            task_scope.execution.note_cancel(JOB.get())
        return super().cancel(msg)


def find_task_scope() -> TaskScope | None:
    """The scope of the running task, if it runs a job's code or one of its calls."""
    return getattr(asyncio.current_task(), _SCOPE, None)


def get_task_scope() -> TaskScope:
    """The scope of running job code; or an error, if this is the code of a call, or of no job."""
    task_scope: TaskScope | None = getattr(asyncio.current_task(), _SCOPE, None)
    if task_scope is None or task_scope.inside is not None:
        raise _make_misplaced_error(task_scope)
    return task_scope


def _make_misplaced_error(task_scope: TaskScope | None) -> InvalidMove:
    if task_scope is None:
        msg = "a durable call was made outside the code of a job"
        return InvalidMove(
            msg,
            hint="Make it from an agent's function or a task it started; a task started inside a step cannot.",
        )
    msg = f"a durable call was made inside the call {task_scope.inside}"
    return InvalidMove(
        msg,
        hint="A step is one recorded result. Make the inner call before or after it, from the agent's own code.",
    )


async def wait_until_done(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    """Waits until the task has ended. The task continues if the caller is cancelled: like `asyncio.wait` for one task,
    and quicker."""
    ended: asyncio.Future[None] = loop.create_future()

    def end(_task: asyncio.Task[Any]) -> None:
        if not ended.done():
            ended.set_result(None)

    task.add_done_callback(end)
    await ended


# ── the task factory ──────────────────────────────────────────────────────────────────────────────


def install(loop: asyncio.AbstractEventLoop) -> None:
    """Gives tasks that job code starts on this loop a scope; other tasks are not affected."""
    before: Any = loop.get_task_factory()
    if not isinstance(before, _TaskFactory):
        factory: Any = _TaskFactory(before)
        loop.set_task_factory(factory)
        _install_ordered_waits()


def start_root(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], run: Run, scope: StepScope
) -> asyncio.Task[Any]:
    """Starts the task that runs the job's function."""
    context = contextvars.copy_context()
    context.run(JOB.set, run.scheduler)
    run.scheduler.run = run
    factory: Any = loop.get_task_factory()
    task: asyncio.Task[Any] = factory.make_job_task(
        loop, coroutine, TaskScope(run, scope), {"context": context}, eager=False
    )
    return task


def create_detached_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], name: str
) -> asyncio.Task[Any]:
    """Starts a task that belongs to no job, whatever code starts it, and does not inherit the context."""
    factory: Any = loop.get_task_factory()
    empty = contextvars.Context()
    if not isinstance(factory, _TaskFactory):
        return loop.create_task(coroutine, context=empty, name=name)
    task = factory.make_task(loop, coroutine, {"context": empty})
    task.set_name(name)
    return task


class _TaskFactory:
    """Task factory of a loop. `before` is the loop's own factory. It does not make job tasks, because they must be
    `JobTask`s, unless it has a method `make_job_task(loop, JobTask, coroutine, task_scope, options)`."""

    def __init__(self, before: Any) -> None:
        self._before = before
        self._eager = before is not None and before is getattr(asyncio, "eager_task_factory", None)

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        scheduler = JOB.get()
        if type(scheduler) is not ReplayScheduler:
            return self.make_task(loop, coroutine, options)
        outer: TaskScope | None = getattr(asyncio.current_task(loop), _SCOPE, None)
        if outer is None or outer.execution.scheduler is not scheduler:
            outer = scheduler.run.callback_scope
        scope = outer.scope.inner(*_identify(coroutine))
        return self.make_job_task(
            loop, coroutine, TaskScope(outer.execution, scope), options, eager=self._eager
        )

    def make_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], options: dict[str, Any]
    ) -> asyncio.Task[Any]:
        if self._before is None:
            return asyncio.Task(coroutine, loop=loop, **options)
        task: asyncio.Task[Any] = self._before(loop, coroutine, **options)
        return task

    def make_job_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any],
        task_scope: TaskScope,
        options: dict[str, Any],
        *,
        eager: bool,
    ) -> asyncio.Task[Any]:
        make = getattr(self._before, "make_job_task", None)
        if make is not None:
            task: asyncio.Task[Any] = make(loop, JobTask, coroutine, task_scope, options)
            return task
        if eager:
            options = {"eager_start": True, **options}
        return JobTask(coroutine, task_scope, loop=loop, **options)


def _identify(coroutine: Any) -> tuple[str, str]:
    """The name of a coroutine, and a digest of its arguments; no digest, if the name identifies it."""
    name = getattr(coroutine, "__qualname__", type(coroutine).__qualname__)
    if getattr(coroutine, "__name__", "") == PLACED:
        return name, ""
    return name, _digest_arguments(coroutine)


PLACED: Final = "<placed>"
"""`__name__` of a coroutine that its `__qualname__` identifies, whatever its arguments are."""


def place_by_name(coroutine: Any, name: str) -> None:
    """Gives the task that runs this coroutine the scope `name`."""
    coroutine.__name__, coroutine.__qualname__ = PLACED, name


_DIGEST_LENGTH: Final = 8
_DEPTH_MAX: Final = 6
_ITEMS_MAX: Final = 1000
_PLAIN: Final = (
    int,
    float,
    bool,
    type(None),
    uuid.UUID,
    dt.date,
    dt.time,
    dt.timedelta,
    decimal.Decimal,
    pathlib.PurePath,
)


def _digest_arguments(coroutine: Any) -> str:
    """Digest that distinguishes this coroutine from others of its name: its arguments, as far as they are plain
    values."""
    frame = getattr(coroutine, "cr_frame", None)
    code: types.CodeType | None = getattr(coroutine, "cr_code", None)
    if frame is None or code is None:
        return ""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    if not count:
        return ""
    values = frame.f_locals
    parts = _Parts()
    for name in code.co_varnames[:count]:
        if name in values:
            parts.add(values[name], 0)
    if not parts.plain:
        return ""
    text = "\0".join(parts.found)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]


class _Parts:
    """Arguments as text: plain values by value, everything else by its position, up to a bounded number."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.plain = 0
        """How many of them were added by value."""

    def add(self, value: Any, depth: int) -> None:
        if len(self.found) >= _ITEMS_MAX or depth > _DEPTH_MAX:
            return
        self.plain += 1
        if isinstance(value, enum.Enum):
            self.found.append(f"{type(value).__qualname__}.{value.name}")
        elif isinstance(value, str):
            self.found.append("s" + str.__str__(value))
        elif isinstance(value, bytes | bytearray):
            self.found.append("b" + value.hex())
        elif isinstance(value, _PLAIN):
            self.found.append(repr(value))
        elif isinstance(value, list | tuple):
            self._add_all("[", value, depth)
        elif isinstance(value, dict):
            self._add_all("{", [part for pair in value.items() for part in pair], depth)
        elif isinstance(value, set | frozenset):
            self._add_all("<", sorted(value, key=repr), depth)
        elif inspect.iscoroutine(value):
            self.found += _identify(value)
        else:
            self.plain -= 1
            self.found.append("t")

    def _add_all(self, kind: str, values: Any, depth: int) -> None:
        self.found.append(f"{kind}{len(values)}")
        for value in values:
            self.add(value, depth + 1)


# ── sets of tasks ─────────────────────────────────────────────────────────────────────────────────


def _install_ordered_waits() -> None:
    """Patches `asyncio.wait` and `as_completed`, which put their arguments into a set. In job code that set is filled
    in the order of scopes, and not of creation: this decides which of two tasks in one slot comes first."""
    if getattr(asyncio.wait, "is_holdfast", False):
        return
    before_wait, before_as_completed = asyncio.wait, asyncio.as_completed

    @functools.wraps(before_wait)
    async def wait(fs: Any, **options: Any) -> Any:
        return await before_wait(sort_by_scope(fs) if _is_job_code(fs) else fs, **options)

    @functools.wraps(before_as_completed)
    def as_completed(fs: Any, **options: Any) -> Any:
        if _is_job_code(fs):
            # Tasks have a repeatable order in a set; coroutines, which are hashed by their address, have none.
            fs = sort_by_scope([asyncio.ensure_future(awaitable) for awaitable in dict.fromkeys(fs)])
        return before_as_completed(fs, **options)

    patched: Any = asyncio
    for name, function in (("wait", wait), ("as_completed", as_completed)):
        setattr(function, "is_holdfast", True)  # noqa: B010 - a function has no such attribute for the checker
        setattr(patched, name, function)
        setattr(patched.tasks, name, function)


def _is_job_code(fs: Any) -> bool:
    """Whether job code waits for these. Not for a single future, which asyncio itself rejects."""
    is_one = isinstance(fs, asyncio.Future) or inspect.iscoroutine(fs)
    return type(JOB.get()) is ReplayScheduler and not is_one


def sort_by_scope(futures: Any) -> list[Any]:
    """Sorts tasks of the job by their scopes; other futures keep their order."""
    return sorted(futures, key=_scope_order)


def _scope_order(future: Any) -> tuple[int, str]:
    task_scope: TaskScope | None = getattr(future, _SCOPE, None)
    return (0, "") if task_scope is None else (task_scope.scope.place_hash, task_scope.scope.path)
