"""Units of work of the SQLite executor."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from holdfast.store.executor import Work

T = TypeVar("T")


class UnitOfWork(Generic[T]):
    """A unit of work and its outcome."""

    __slots__ = ("hints", "outcome", "work")

    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self.outcome: T | BaseException | None = None
        self.hints: list[str] = []


class QueuedUnit(UnitOfWork[T]):
    """A queued unit of work, and the future of its caller."""

    __slots__ = ("asked", "begun", "future", "loop")

    def __init__(self, work: Work[T], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(work)
        self.loop = loop
        self.asked = loop.time()
        self.future: asyncio.Future[T] = loop.create_future()
        self.begun = False

    def deliver_result(self) -> None:
        """Set the result of the future. Runs on the loop of the caller."""
        if self.future.done():
            return
        if isinstance(self.outcome, BaseException):
            self.future.set_exception(self.outcome)
        else:
            self.future.set_result(self.outcome)  # type: ignore[arg-type]


class TransactionRolledBack(Exception):
    """The whole transaction was rolled back."""

    def __init__(self, cause: Exception) -> None:
        super().__init__()
        self.cause = cause
