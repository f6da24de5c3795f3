"""Postgres migrations, under an advisory lock that ends with its transaction."""

from __future__ import annotations

from typing import Final

from holdfast.store.clock import Clock
from holdfast.store.postgres.connections import Connection, Connections
from holdfast.store.sql.dialect import POSTGRES, render
from holdfast.store.sql.migrate import MIN_READER, RECORD, AppliedMigration, Migration

LOCK: Final = 0x484F4C44
"""The advisory lock of all migrations: of two processes that start together, the second waits."""


class PostgresSchema:
    def __init__(self, connections: Connections, schema: str, clock: Clock | None) -> None:
        self._connections = connections
        self._schema = schema
        self._clock = clock

    async def list_applied(self) -> list[AppliedMigration]:
        if not await self._has("schema_migrations"):
            return []
        async with self._connections.acquire() as connection:
            rows = await connection.fetch(
                "SELECT number, name, digest FROM schema_migrations ORDER BY number"
            )
        return [AppliedMigration(*row) for row in rows]

    async def min_reader(self) -> int:
        if not await self._has("store_state"):
            return 0
        async with self._connections.acquire() as connection:
            return int(await connection.fetchval("SELECT min_reader FROM store_state") or 0)

    async def _has(self, table: str) -> bool:
        async with self._connections.acquire() as connection:
            found = await connection.fetchval(
                "SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = $2", self._schema, table
            )
        return found is not None

    async def apply(self, *migrations: Migration) -> list[Migration]:
        async with self._connections.acquire() as connection, connection.transaction():
            # No time limit for a migration, nor for waiting for that of another process. The lock of a table that is in
            # use has the usual limit: all other statements on the table queue up behind a waiting migration.
            await connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            await connection.execute("SET LOCAL lock_timeout TO DEFAULT")
            await connection.execute(_CREATE_SCHEMA.replace("SCHEMA_NAME", quote_identifier(self._schema)))
            await connection.execute(render(RECORD, POSTGRES))
            done = {row[0] for row in await connection.fetch("SELECT number FROM schema_migrations")}
            todo = [migration for migration in migrations if migration.number not in done]
            for migration in todo:
                await self._write(connection, migration)
        return todo

    async def _write(self, connection: Connection, migration: Migration) -> None:
        await connection.execute(migration.script)
        await connection.execute("UPDATE store_state SET min_reader = greatest(min_reader, $1)", MIN_READER)
        await connection.execute(
            "INSERT INTO schema_migrations VALUES ($1, $2, $3, "
            "coalesce($4, (extract(epoch from statement_timestamp()) * 1000000)::bigint))",
            migration.number,
            migration.name,
            migration.digest,
            None if self._clock is None else self._clock.wall_us(),
        )


_CREATE_SCHEMA: Final = "CREATE SCHEMA IF NOT EXISTS SCHEMA_NAME"


def quote_identifier(name: str) -> str:
    """Quote a name as an identifier; quotes in it are doubled."""
    return '"' + name.replace('"', '""') + '"'
