"""Executor: runs named SQL statements in transactions. The tables use it for all SQL.

The tables are written once, as `async def` functions over a `Transaction`. On Postgres these functions wait for the
server. On SQLite they never wait: every statement returns at once, so the same coroutine runs from start to end inside
the writer's turn, without an event loop. So one source serves both databases, without a blocking copy of it.

A unit of work must therefore await nothing but its transaction. It may run more than once (a lost connection, a
deadlock), so running it again must be harmless: every write of Holdfast carries its own identity (a head hash, a
request key, a source key, an operation id, a token), by which the second run recognises the first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from holdfast.errors import HoldfastError

T = TypeVar("T")
Value = int | str | bytes | None | Sequence[Any]
Row = Sequence[Any]


class Transaction(Protocol):
    """Runs statements by name, with parameters by name. Times (`now`, `tick`, `boot`) come from the executor."""

    @property
    def batches(self) -> bool:
        """Whether array statements exist, which write many rows in one round trip. (SQLite has no round trips to
        save.)"""
        ...

    @property
    def seals(self) -> bool:
        """Whether payloads are encrypted. Each is encrypted for its own place, so no two rows can share one."""
        ...

    async def rows(self, statement: str, /, **values: Value) -> Sequence[Row]: ...

    async def row(self, statement: str, /, **values: Value) -> Row | None: ...

    async def run(self, statement: str, /, **values: Value) -> None: ...

    async def rows_each(self, statement: str, values: Sequence[dict[str, Value]], /) -> Sequence[Row]:
        """Run the statement once for each set of values, one after the other; return all rows."""
        ...

    async def change_each(self, statement: str, values: Sequence[dict[str, Value]], /) -> int:
        """Run the statement once for each set of values; return how many rows it changed in all."""
        ...

    def hint(self, topic: str) -> None:
        """Send a wake-up for this topic once the transaction is durable."""
        ...


Work = Callable[[Transaction], Awaitable[T]]


class RunAgain(Exception):
    """A unit of work raises this when it collides with a concurrent one. The executor runs it again, and it then sees
    what the other one wrote."""


class Executor(Protocol):
    """Runs units of work."""

    @property
    def batches(self) -> bool:
        """See `Transaction.batches`."""
        ...

    @property
    def seals(self) -> bool:
        """See `Transaction.seals`."""
        ...

    async def write(self, work: Work[T], *, gathered: bool = False) -> T:
        """Run the work in a transaction and commit it. If it raises, nothing of it is written.

        `gathered`: the work already contains the writes of many jobs, so it does not wait for others to join its
        commit.
        """
        ...

    def write_now(self, work: Work[T]) -> T | None:
        """As `write`, but durable before this returns. None: this is not possible right now, and the work has not
        begun."""
        ...

    async def run_statement(self, statement: str, /, **values: Value) -> Sequence[Row]:
        """Run one statement as a transaction of its own, without round trips for BEGIN and COMMIT; return its rows."""
        ...

    def send_wakeups(self, topics: Iterable[str]) -> None:
        """Send wake-ups to the waiters of these topics. Call it after the write that they announce is durable."""
        ...

    async def write_each(self, works: Sequence[Work[T]]) -> list[T | HoldfastError]:
        """Run each work and return its outcome, with as few commits as possible. A work that raises does not affect the
        others."""
        ...

    async def read(self, work: Work[T], *, snapshot: bool = False, brief: bool = False) -> T:
        """Run a work that only reads, and return its result.

        `snapshot` gives all its statements one view of the data; `brief` says that it is a point lookup, which is
        cheaper on the calling thread than on another one.
        """
        ...
