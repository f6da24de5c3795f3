"""SQLite transaction: named statements on one connection."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import apsw

from holdfast.errors import InvalidPayload, StoreCorrupt
from holdfast.store.executor import Row, Value, Work
from holdfast.store.sql.dialect import SQLITE, TIMES
from holdfast.store.sql.loader import load_statements
from holdfast.store.sqlite.errors import translate
from holdfast.store.store_clock import StoreClock

T = TypeVar("T")
Picker = Callable[[Mapping[str, Value]], Sequence[Value]]

_LIST = re.compile(r"json_each\(\?(\d+)\)")
_UNFIT = (OverflowError, UnicodeEncodeError)
"""Exceptions that the driver raises for a value before it passes it to SQLite."""


class SqliteTransaction:
    """One unit of work's view of the database. Every statement returns at once; nothing here waits."""

    __slots__ = ("_clock", "_connection", "_times", "hints")
    batches = False
    seals = False

    def __init__(self, connection: apsw.Connection, clock: StoreClock) -> None:
        self._connection = connection
        self._clock = clock
        self._times: Mapping[str, Value] = {}
        self.hints: list[str] = []

    async def rows(self, statement: str, /, **values: Value) -> Sequence[Row]:
        return self._execute(statement, values)

    async def row(self, statement: str, /, **values: Value) -> Row | None:
        rows = self._execute(statement, values)
        return rows[0] if rows else None

    async def run(self, statement: str, /, **values: Value) -> None:
        self._execute(statement, values)

    async def change_each(self, statement: str, values: Sequence[dict[str, Value]], /) -> int:
        before = self._connection.total_changes()
        await self.rows_each(statement, values)
        return self._connection.total_changes() - before

    async def rows_each(self, statement: str, values: Sequence[dict[str, Value]], /) -> Sequence[Row]:
        text, arguments, timed, _ = _READY[statement]
        if timed:
            times = self._read_time()
            for each in values:
                each.update(times)
        try:
            return self._connection.executemany(text, map(arguments, values)).fetchall()
        except apsw.Error as error:
            raise translate(error, statement) from error
        except _UNFIT as error:
            raise _make_value_error(error, statement) from error

    def hint(self, topic: str) -> None:
        self.hints.append(topic)

    def _read_time(self) -> Mapping[str, Value]:
        """The time, the same for the whole transaction. An ordinary append does not read it."""
        if not self._times:
            self._times = self._clock.times()
        return self._times

    def _execute(self, name: str, values: dict[str, Any]) -> Sequence[Row]:
        text, arguments, timed, lists = _READY[name]
        if timed:
            values.update(self._read_time())
        for key in lists:
            values[key] = json.dumps(values[key])
        try:
            return self._connection.execute(text, arguments(values)).fetchall()
        except apsw.Error as error:
            raise translate(error, name) from error
        except _UNFIT as error:
            raise _make_value_error(error, name) from error
        except UnicodeDecodeError as error:
            msg = f"a stored text is not text ({name}: {error})"
            raise StoreCorrupt(msg) from error


def _make_picker(names: Sequence[str]) -> Picker:
    """A function that takes the parameters out of a mapping, in their order."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: [values[name] for name in names]


class _PreparedStatements(dict[str, tuple[str, Picker, bool, list[str]]]):
    """Statements prepared for use: the text, the function that takes its arguments out of a mapping, whether it needs
    the time, and which of its parameters are lists. Each is prepared when it first runs."""

    def __missing__(self, name: str) -> tuple[str, Picker, bool, list[str]]:
        statement = load_statements(SQLITE)[name]
        lists = [statement.names[int(number) - 1] for number in sorted(set(_LIST.findall(statement.text)))]
        timed = not TIMES.isdisjoint(statement.names)
        self[name] = statement.text, _make_picker(statement.names), timed, lists
        return self[name]


_READY = _PreparedStatements()


def _make_value_error(error: Exception, statement: str) -> InvalidPayload:
    msg = f"a value fits no column ({statement}: {error})"
    return InvalidPayload(msg, hint="Send well-formed text, and integers of at most 64 bits.")


def drive(work: Work[T], tx: SqliteTransaction) -> T:
    """Run a unit of work from start to end on this thread, and return its result."""
    running = work(tx).__await__()
    try:
        next(running)
    except StopIteration as done:
        result: T = done.value
        return result
    msg = "a unit of work waited for something other than its transaction"
    raise RuntimeError(msg)
