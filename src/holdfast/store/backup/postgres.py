"""Copies a Postgres store into a SQLite file (in one snapshot) and back (in one transaction), table by table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import asyncpg

from holdfast.model.ids import IdSource
from holdfast.store.backup.tables import ROWS_AT_ONCE, TABLES
from holdfast.store.clock import Clock
from holdfast.store.executor import Executor
from holdfast.store.postgres.errors import translate
from holdfast.store.postgres.executor import PostgresExecutor
from holdfast.store.sqlite.connection import connect
from holdfast.store.sqlite.open import open_sqlite


async def copy_out(executor: PostgresExecutor, target: Path, *, clock: Clock, ids: IdSource) -> None:
    """Create a Holdfast SQLite file with everything that the store holds at one instant."""
    await (await open_sqlite(target, clock=clock, ids=ids)).close()
    copy = connect(target)
    try:
        with copy:
            copy.execute("PRAGMA defer_foreign_keys = ON").fetchall()
            for table in reversed(TABLES):
                copy.execute(_EMPTY[table])
            async with (
                executor.connections.acquire() as server,
                server.transaction(isolation="repeatable_read", readonly=True),
            ):
                for table in TABLES:
                    await _export_table(server, copy, table)
    except asyncpg.PostgresError as error:
        raise translate(error, "backup") from error
    finally:
        copy.close()


async def _export_table(server: asyncpg.Connection[Any], copy: apsw.Connection, table: str) -> None:
    columns = columns_of(copy, table)
    select = "SELECT " + ", ".join(columns) + " FROM " + table
    insert = "INSERT INTO " + table + " VALUES (" + ", ".join("?" * len(columns)) + ")"
    rows = []
    async for row in server.cursor(select, prefetch=ROWS_AT_ONCE):
        rows.append(tuple(row))
        if len(rows) == ROWS_AT_ONCE:
            copy.executemany(insert, rows)
            rows.clear()
    copy.executemany(insert, rows)


async def copy_in(executor: PostgresExecutor, source: Path) -> None:
    """Replace the content of the store by that of the source, in one transaction."""
    staged = connect(source)
    try:
        async with executor.connections.acquire() as server, server.transaction():
            # In one transaction: a reader sees the old store or the new one; a writer waits and is then fenced.
            await server.execute("SET CONSTRAINTS ALL DEFERRED")
            await server.execute("SET LOCAL statement_timeout = 0")
            await server.execute("SET LOCAL lock_timeout = '60s'")
            await server.execute("TRUNCATE " + ", ".join(TABLES))
            for table in TABLES:
                await _import_table(server, staged, table)
    except asyncpg.PostgresError as error:
        raise translate(error, "restore") from error
    finally:
        staged.close()


async def _import_table(server: asyncpg.Connection[Any], staged: apsw.Connection, table: str) -> None:
    columns = columns_of(staged, table)
    rows = staged.execute("SELECT " + ", ".join(columns) + " FROM " + table)
    while chunk := list(_take_chunk(rows)):
        await server.copy_records_to_table(table, records=chunk, columns=columns)


def _take_chunk(rows: apsw.Cursor) -> list[tuple[Any, ...]]:
    chunk = []
    for row in rows:
        chunk.append(tuple(row))
        if len(chunk) == ROWS_AT_ONCE:
            break
    return chunk


def columns_of(copy: apsw.Connection, table: str) -> list[str]:
    """The table's columns, in the order of the file."""
    return [str(row[1]) for row in copy.execute("PRAGMA table_info(" + table + ")").fetchall()]


def server_of(executor: Executor) -> PostgresExecutor:
    assert isinstance(executor, PostgresExecutor), "SQL stores are on SQLite or on Postgres"
    return executor


_EMPTY = {table: "DELETE FROM " + table for table in TABLES}
