"""Ready queue of an event loop, as one job sees it: whether a callback of the job is about to run.

Every callback that job code schedules carries the context of that code, and so the job's mark. To search the queue
takes time proportional to its length, and the queue of a busy worker holds the callbacks of all its jobs. Code that
gets one result after the other without a wait would search the same queue each time, so a queue that has not changed
since the last search is not searched again.
"""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol

NAME: Final = "_ready"
"""Attribute of asyncio's own loops that holds their ready queue: a deque of handles."""

_NEVER_LOOKED: Final = -1

_GONE: Final[Callable[[], Any]] = lambda: None  # noqa: E731 - what a weak reference to nothing says


class ReadyQueue:
    """The loop's ready queue, searched for callbacks of one job. `handles` is the loop's own queue; in the context of
    the job's callbacks `mark` is `owner`."""

    __slots__ = ("_first", "_handles", "_last", "_length", "_mark", "_owner")

    def __init__(self, handles: Any, mark: contextvars.ContextVar[Any], owner: object) -> None:
        self._handles = handles
        self._mark = mark
        self._owner = owner
        # The queue that the last search found without callbacks of the job. Weak: a handle leads to the run of another
        # job.
        self._length = _NEVER_LOOKED
        self._first = self._last = _GONE

    def begin(self) -> None:
        """Called when the job's code starts: none of its callbacks is in the queue. A second call has no effect."""
        if self._length == _NEVER_LOOKED:
            self._length = 0
            if handles := list(self._handles):
                self._remember(handles)

    def is_quiet(self) -> bool:
        """Whether no callback of the job is in the queue."""
        ready = self._handles
        length = len(ready)
        if not length:
            return True
        # A handle of a socket is queued again and again, so the last handle alone would not identify a queue.
        if length == self._length and ready[0] is self._first() and ready[-1] is self._last():
            return True
        # A copy: other threads schedule callbacks, and a deque that changes cannot be iterated.
        handles, mark, owner = list(ready), self._mark, self._owner
        for handle in handles:
            if handle._context.get(mark) is owner:  # noqa: SLF001 - no other way
                return False
        self._remember(handles)
        return True

    def _remember(self, handles: list[Any]) -> None:
        self._length = len(handles)
        self._first, self._last = weakref.ref(handles[0]), weakref.ref(handles[-1])


class _CallbackCounter(Protocol):
    """Counts callbacks that are about to run."""

    ready_callbacks: int


class CountedCallback:
    """A callback of job code on a loop that hides its ready queue, and the handle that cancels it."""

    __slots__ = ("_callback", "_owner", "handle")

    def __init__(self, owner: _CallbackCounter, callback: Callable[..., object]) -> None:
        self._owner: _CallbackCounter | None = owner
        self._callback = callback
        self.handle: Any = None
        owner.ready_callbacks += 1

    def __call__(self, *args: Any) -> None:
        self._leave()
        self._callback(*args)

    def cancel(self) -> None:
        self._leave()
        self.handle.cancel()

    def cancelled(self) -> bool:
        return bool(self.handle.cancelled())

    def _leave(self) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.ready_callbacks -= 1
