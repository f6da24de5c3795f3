"""Where in a job's program a piece of running code stands.

Every asyncio task that job code starts gets a scope of its own the moment it is created, named after its coroutine and
counted by the task that starts it. The event loop tells us through its task factory, so `gather`, `TaskGroup`,
`wait_for` and anyio need no wrappers.

Tasks started *inside* a step, tool or wrapped client are that call's own business: they get no scope, and a durable
call from one of them is an error, because nobody could say which call it is on the next run.

A place is kept by its task and by nobody else. It leads to the run, and the run to its tasks: in a table beside them,
even one with weak keys, each would keep the other for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, Protocol

from holdfast.engine.conductor import JOB, Timer
from holdfast.errors import InvalidMove
from holdfast.model.naming import Scope


class Driven(Protocol):
    """What a place needs to know of the one who drives the job."""

    def joined(self, task: asyncio.Task[Any]) -> None:
        """One more task runs the job's code."""
        ...

    def timer(self, timer: Timer) -> Callable[[], None]:
        """The job's code has set a timer; what is given back says that its time has come."""
        ...


class Place:
    """A task of a job: its scope, and whether it is inside a call."""

    __slots__ = ("drive", "inside", "scope")

    def __init__(self, drive: Driven, scope: Scope) -> None:
        self.drive = drive
        self.scope = scope
        self.inside: str | None = None

    @contextlib.contextmanager
    def within(self, step_key: str) -> Iterator[None]:
        """What runs in the block is a call's own code, not the job's."""
        token = self.enter(step_key)
        try:
            yield
        except GeneratorExit:
            # The task was left behind with its loop and is being swept up, in whose context nobody knows.
            self.inside = None
            raise
        except BaseException:
            self.leave(token)
            raise
        self.leave(token)

    def enter(self, step_key: str) -> contextvars.Token[object]:
        """From here to `leave` it is a call's own code."""
        self.inside = step_key
        return JOB.set(None)

    def leave(self, token: contextvars.Token[object]) -> None:
        JOB.reset(token)
        self.inside = None


_PLACE: Final = "_holdfast_place"
"""Under this name a task has its place."""


def put(task: asyncio.Task[Any], place: Place) -> None:
    setattr(task, _PLACE, place)
    place.drive.joined(task)


def here() -> Place | None:
    """The place of the running task, if it runs a job's code or one of its calls."""
    return getattr(asyncio.current_task(), _PLACE, None)


def outside_calls() -> Place:
    """The place of running job code; or an error, if this is the code of a call, or no job's at all."""
    place: Place | None = getattr(asyncio.current_task(), _PLACE, None)
    if place is None or place.inside is not None:
        raise _misplaced(place)
    return place


def _misplaced(place: Place | None) -> InvalidMove:
    if place is None:
        msg = "a durable call outside a job's own code"
        return InvalidMove(
            msg,
            hint="Make it from an agent's function or a task it started; a task started inside a step cannot.",
        )
    msg = f"a durable call inside the call {place.inside}"
    return InvalidMove(
        msg, hint="A step is one fact. Make the inner call before or after it, or from the agent."
    )


async def over(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    """The task has ended, however. It goes on if whoever waits is cancelled: `asyncio.wait` for one, and quicker."""
    ended: asyncio.Future[None] = loop.create_future()

    def tell(_task: asyncio.Task[Any]) -> None:
        if not ended.done():
            ended.set_result(None)

    task.add_done_callback(tell)
    await ended


def watch(loop: asyncio.AbstractEventLoop) -> None:
    """Tasks that job code starts on this loop have a place from now on; everybody else's are as before."""
    before: Any = loop.get_task_factory()
    if not isinstance(before, _Factory):
        factory: Any = _Factory(before)
        loop.set_task_factory(factory)


def apart(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], name: str
) -> asyncio.Task[Any]:
    """A task that is no job's, whoever starts it, and knows nothing of its context."""
    factory: Any = loop.get_task_factory()
    nowhere = contextvars.Context()
    if not isinstance(factory, _Factory):
        return loop.create_task(coroutine, context=nowhere, name=name)
    task = factory.make(loop, coroutine, {"context": nowhere})
    task.set_name(name)
    return task


class _Factory:
    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        place: Place | None = getattr(asyncio.current_task(loop), _PLACE, None)
        if place is None or place.inside is not None:
            return self.make(loop, coroutine, options)
        scope = place.scope.inner(getattr(coroutine, "__qualname__", type(coroutine).__qualname__))
        task = self.make(loop, coroutine, options)
        put(task, Place(place.drive, scope))
        return task

    def make(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], options: dict[str, Any]
    ) -> asyncio.Task[Any]:
        if self._before is None:
            return asyncio.Task(coroutine, loop=loop, **options)
        made: asyncio.Task[Any] = self._before(loop, coroutine, **options)
        return made
