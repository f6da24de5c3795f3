"""Where migrations are tried out: a SQLite file or a schema of a Postgres database, with the same few verbs.

ground.schema()    what `migrate` is given: applies one migration at a time
ground.open()      a store, opened by the next version of Holdfast: one that has the synthetic migrations, too
ground.seen()      what is really there, asked of the database and of nobody else
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import apsw
import asyncpg

from holdfast.model.ids import RandomIds
from holdfast.store.clock import Clock, SystemClock
from holdfast.store.postgres.connections import Connections
from holdfast.store.postgres.open import open_postgres
from holdfast.store.postgres.schema import LOCK, PostgresSchema
from holdfast.store.sql.dialect import POSTGRES, SQLITE, Dialect, render
from holdfast.store.sql.migrate import AppliedMigration
from holdfast.store.sqlite.connection import check_file_is_ours, connect, make_durable
from holdfast.store.sqlite.filesystem import make_private
from holdfast.store.sqlite.open import open_sqlite
from holdfast.store.sqlite.schema import SqliteSchema
from holdfast.store.sqlite.write_lock import WriteLock
from holdfast.store.tables.store import SqlStore
from tests.operations.migration.next_migrations import all_migrations
from tools.schema import Schema as Tables
from tools.schema import read_postgres, read_sqlite

BOTH: Final = ("sqlite", "postgres")
CLOCK: Final = SystemClock()


@dataclass(frozen=True, slots=True)
class Seen:
    """The record of migrations, and the schema that is there: the two must never disagree."""

    applied: tuple[AppliedMigration, ...] = ()
    tables: Tables = field(default_factory=Tables)


class Ground(Protocol):
    store: str
    address: str
    dialect: Dialect

    def schema(self, clock: Clock = CLOCK, vfs: str | None = None) -> Any: ...

    async def open(self, *, migrating: bool = True, of_today: bool = False) -> SqlStore:
        """A store, opened by the next version of Holdfast, or by this one."""
        ...

    async def seen(self) -> Seen: ...

    async def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of this statement."""
        ...

    async def run(self, script: str) -> None:
        """These statements are carried out."""
        ...

    def fresh(self) -> Ground:
        """Another place of the same kind, with nothing in it."""
        ...


class SqliteGround:
    store = "sqlite"
    dialect = SQLITE

    def __init__(self, address: str) -> None:
        self.address = address
        self._others = 0

    @property
    def path(self) -> Path:
        return Path(self.address)

    def backup(self, number: int) -> Path:
        """Where the copy lies that is made before this migration."""
        return Path(f"{self.address}.before-{number:04}")

    @asynccontextmanager
    async def schema(self, clock: Clock = CLOCK, vfs: str | None = None) -> AsyncIterator[SqliteSchema]:
        make_private(self.path)
        connection, turnstile = connect(self.path, vfs=vfs), WriteLock(self.path)
        try:
            check_file_is_ours(connection, self.path)
            make_durable(connection)
            yield SqliteSchema(connection, turnstile, clock, self.path)
        finally:
            connection.close()
            turnstile.close()

    async def open(self, *, migrating: bool = True, of_today: bool = False) -> SqlStore:
        return await open_sqlite(
            self.path,
            clock=CLOCK,
            ids=RandomIds(),
            migrating=migrating,
            migrations=None if of_today else all_migrations(SQLITE),
            patience_s=60,
        )

    async def seen(self) -> Seen:
        if not self.path.exists():
            return Seen()
        connection = apsw.Connection(self.address)
        try:
            connection.execute("BEGIN")
            tables = read_sqlite(connection)
            recorded = "schema_migrations" in tables.names
            rows: list[Any] = connection.execute(_RECORD).fetchall() if recorded else []
            return Seen(tuple(AppliedMigration(*row) for row in rows), tables)
        finally:
            connection.close()

    async def ask(self, statement: str) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(self.address)
        try:
            return list(connection.execute(statement))
        finally:
            connection.close()

    async def run(self, script: str) -> None:
        await self.ask(script)

    def fresh(self) -> SqliteGround:
        self._others += 1
        return SqliteGround(f"{self.address}-{self._others}")


class PostgresGround:
    store = "postgres"
    dialect = POSTGRES

    def __init__(self, address: str, name: str = "holdfast") -> None:
        self.address = address
        self.name = name
        self._others = 0

    @asynccontextmanager
    async def schema(self, clock: Clock = CLOCK, vfs: str | None = None) -> AsyncIterator[PostgresSchema]:
        connect = functools.partial(asyncpg.connect, self.address, server_settings={"search_path": self.name})
        connections = Connections(connect, most=2)
        yield PostgresSchema(connections, self.name, clock)
        await connections.close(patience_s=1)

    async def open(self, *, migrating: bool = True, of_today: bool = False) -> SqlStore:
        return await open_postgres(
            self.address,
            ids=RandomIds(),
            schema=self.name,
            migrating=migrating,
            migrations=None if of_today else all_migrations(POSTGRES),
            patience_s=60,
        )

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection[Any]]:
        connection = await asyncpg.connect(self.address, server_settings={"search_path": self.name})
        try:
            yield connection
        finally:
            await connection.close()

    async def seen(self) -> Seen:
        # Under the lock of migrations: whoever was killed in the middle of one is really gone then.
        async with self.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            tables = await read_postgres(connection, self.name)
            rows = await connection.fetch(_RECORD) if "schema_migrations" in tables.names else []
            return Seen(tuple(AppliedMigration(*row) for row in rows), tables)

    async def ask(self, statement: str) -> list[tuple[Any, ...]]:
        async with self.connection() as connection:
            return [tuple(row) for row in await connection.fetch(statement)]

    async def run(self, script: str) -> None:
        async with self.connection() as connection:
            await connection.execute(script)

    def fresh(self) -> PostgresGround:
        self._others += 1
        return PostgresGround(self.address, f"{self.name}_{self._others}")


_RECORD = "SELECT number, name, digest FROM schema_migrations ORDER BY number"


def ground_at(store: str, address: str, name: str = "holdfast") -> SqliteGround | PostgresGround:
    """The place that a child process was told of."""
    return SqliteGround(address) if store == "sqlite" else PostgresGround(address, name)


def told(ground: Ground) -> dict[str, str]:
    """What a child process must be told to find it."""
    name = {"name": ground.name} if isinstance(ground, PostgresGround) else {}
    return {"store": ground.store, "address": ground.address, **name}


async def advance(ground: Ground, count: int) -> None:
    """The first `count` migrations are applied, and nothing else is there."""
    async with ground.schema() as schema:
        for migration in all_migrations(ground.dialect)[:count]:
            await schema.apply(migration)


async def fill(ground: Ground) -> None:
    """The store holds something: its identity, and a job."""
    await ground.run(render(_STORE + _JOB, ground.dialect))


_STORE: Final = """
INSERT INTO store_state VALUES (1, 'store-of-old', 3, 1, 0);
INSERT INTO namespaces VALUES ('default', 0);
"""
_JOB: Final = """
INSERT INTO jobs (job_id, namespace, kind, queue, priority, request_digest, created_at)
VALUES ('job-of-old', 'default', 'work', 'default', 5, CAST('' AS {bytes}), 0);
INSERT INTO job_heads (job_id, namespace, queue, kind, priority, status, ready_at, head_seq, head_hash, fence,
                       lease_token, lease_owner, lease_boot, lease_expires_at, mail_seq, attempts, takeovers)
VALUES ('job-of-old', 'default', 'default', 'work', 5, 'pending', 0, 1, CAST('' AS {bytes}), 1,
        '', '', '', 0, 0, 0, 0);
"""


async def held(ground: Ground) -> Sequence[tuple[Any, ...]]:
    """What `fill` put there, as it is now."""
    rows = await ground.ask("SELECT store_id, epoch FROM store_state")
    return rows + await ground.ask("SELECT job_id, status FROM job_heads")
