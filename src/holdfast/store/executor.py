"""What the tables stand on: somebody who runs named statements in transactions.

The tables are written once, as `async def` functions over a `Transaction`. On Postgres they really wait for the
server. On SQLite they never wait: every statement answers at once, so the same coroutine runs from start to end inside
the writer's turn, without an event loop. One source, two ways to run it, no second colour.

A unit of work must therefore await nothing but its transaction, may run more than once (a lost connection, a deadlock),
and must leave a retry harmless; every write of Holdfast carries its own identity (a head hash, a request key, a source
key, an operation id, a token), and recognises itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from holdfast.errors import HoldfastError

T = TypeVar("T")
Value = int | str | bytes | None | Sequence[Any]
Row = Sequence[Any]


class Transaction(Protocol):
    """Statements by name; parameters by name. Times (`now`, `tick`, `boot`) come from the executor."""

    @property
    def batches(self) -> bool:
        """Whether array statements exist: one round trip for many rows. (SQLite has no round trips to save.)"""
        ...

    @property
    def seals(self) -> bool:
        """Whether payloads are encrypted, each for its own place: then no two rows can share one."""
        ...

    async def rows(self, statement: str, /, **values: Value) -> Sequence[Row]: ...

    async def row(self, statement: str, /, **values: Value) -> Row | None: ...

    async def run(self, statement: str, /, **values: Value) -> None: ...

    async def rows_each(self, statement: str, values: Sequence[dict[str, Value]], /) -> Sequence[Row]:
        """The rows of the statement run once for each set of values, one after the other."""
        ...

    async def change_each(self, statement: str, values: Sequence[dict[str, Value]], /) -> int:
        """How many rows the statement changed, run once for each set of values: for when who they are is known."""
        ...

    def hint(self, topic: str) -> None:
        """Wake whoever waits for this topic, once the transaction is durable."""
        ...


Work = Callable[[Transaction], Awaitable[T]]


class RunAgain(Exception):
    """Raised by a unit of work that met another one at the same place: run it again, it will see what the other did."""


class Executor(Protocol):
    """Runs units of work."""

    @property
    def batches(self) -> bool:
        """As its transactions say."""
        ...

    @property
    def seals(self) -> bool:
        """As its transactions say."""
        ...

    async def write(self, work: Work[T], *, gathered: bool = False) -> T:
        """The work is durable, whole; or it raised, and nothing of it is there.

        `gathered`: it is the work of many already, and need not wait a moment for others to join.
        """
        ...

    def write_now(self, work: Work[T]) -> T | None:
        """As `write`, before this returns. None: that cannot be done here and now, and nothing of it has begun."""
        ...

    async def once(self, statement: str, /, **values: Value) -> Sequence[Row]:
        """The rows of one statement that is a transaction by itself: no round trips around it."""
        ...

    def spread(self, topics: Iterable[str]) -> None:
        """Hints for whoever waits; call it after what they hint at is durable."""
        ...

    async def write_each(self, works: Sequence[Work[T]]) -> list[T | HoldfastError]:
        """The outcome of each, from as few commits as possible; a work that raises harms no other."""
        ...

    async def read(self, work: Work[T], *, snapshot: bool = False, brief: bool = False) -> T:
        """The answer of a work that only reads.

        `snapshot` gives all its statements one view of the data; `brief` says that it is a point lookup, not worth a
        change of thread.
        """
        ...
