"""Named statements on one SQLite connection."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import apsw

from holdfast.errors import StoreCorrupt
from holdfast.store.clock import Clock
from holdfast.store.executor import Row, Value, Work
from holdfast.store.sql.dialect import SQLITE
from holdfast.store.sql.loader import statements
from holdfast.store.sqlite.errors import translate

T = TypeVar("T")


class SqliteTransaction:
    """One unit of work's view of the database. Every answer is there at once; nothing here really waits."""

    __slots__ = ("_connection", "_times", "hints")

    def __init__(self, connection: apsw.Connection, clock: Clock) -> None:
        self._connection = connection
        self._times = {"now": clock.wall_us(), "tick": clock.tick_us(), "boot": clock.boot()}
        self.hints: list[str] = []

    async def rows(self, statement: str, /, **values: Value) -> Sequence[Row]:
        return self._execute(statement, values)

    async def row(self, statement: str, /, **values: Value) -> Row | None:
        rows = self._execute(statement, values)
        return rows[0] if rows else None

    async def run(self, statement: str, /, **values: Value) -> None:
        self._execute(statement, values)

    async def run_each(self, statement: str, values: Sequence[Mapping[str, Value]], /) -> None:
        for each in values:
            self._execute(statement, dict(each))

    def hint(self, topic: str) -> None:
        self.hints.append(topic)

    def _execute(self, name: str, values: dict[str, Any]) -> Sequence[Row]:
        values.update(self._times)
        for key, value in values.items():
            if type(value) is list:
                values[key] = json.dumps(value)
        try:
            return self._connection.execute(_TEXTS[name], values).fetchall()
        except apsw.Error as error:
            raise translate(error, name) from error
        except UnicodeDecodeError as error:
            msg = f"a stored text is not text ({name}: {error})"
            raise StoreCorrupt(msg) from error


_TEXTS = {name: statement.text for name, statement in statements(SQLITE).items()}


def drive(work: Work[T], tx: SqliteTransaction) -> T:
    """The result of a unit of work, run from start to end right here."""
    running = work(tx).__await__()
    try:
        next(running)
    except StopIteration as done:
        result: T = done.value
        return result
    msg = "a unit of work waited for something other than its transaction"
    raise RuntimeError(msg)
