"""Postgres transaction: named statements on one connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from holdfast.store.executor import Row, Value
from holdfast.store.sql.dialect import POSTGRES, TIMES
from holdfast.store.sql.loader import load_statements
from holdfast.store.store_clock import StoreClock


class PostgresTransaction:
    """One unit of work's view of the database."""

    __slots__ = ("_clock", "_connection", "hints")
    batches = True
    seals = False

    def __init__(self, connection: asyncpg.Connection[Any], clock: StoreClock) -> None:
        self._connection = connection
        self._clock = clock
        self.hints: list[str] = []

    async def rows(self, statement: str, /, **values: Value) -> Sequence[Row]:
        return await self._fetch(statement, values)

    async def row(self, statement: str, /, **values: Value) -> Row | None:
        rows = await self._fetch(statement, values)
        return rows[0] if rows else None

    async def run(self, statement: str, /, **values: Value) -> None:
        await self._fetch(statement, values)

    async def rows_each(self, statement: str, values: Sequence[dict[str, Value]], /) -> Sequence[Row]:
        return [row for each in values for row in await self._fetch(statement, each)]

    async def change_each(self, statement: str, values: Sequence[dict[str, Value]], /) -> int:
        return sum([await self._count_changed(statement, each) for each in values])

    def hint(self, topic: str) -> None:
        self.hints.append(topic)

    async def _fetch(self, name: str, values: Mapping[str, Value]) -> Sequence[Row]:
        rows: Sequence[Row] = await self._connection.fetch(*self._build_call(name, values))
        return rows

    async def _count_changed(self, name: str, values: Mapping[str, Value]) -> int:
        status: str = await self._connection.execute(*self._build_call(name, values))
        return int(status.rpartition(" ")[2])

    def _build_call(self, name: str, values: Mapping[str, Value]) -> tuple[Any, ...]:
        """The text and its arguments, in the order of their numbers."""
        text, names, timed = _READY[name]
        arguments = {**values, **self._clock.times()} if timed else values
        return (text, *[arguments[parameter] for parameter in names])


_READY = {
    name: (statement.text, statement.names, not TIMES.isdisjoint(statement.names))
    for name, statement in load_statements(POSTGRES).items()
}
