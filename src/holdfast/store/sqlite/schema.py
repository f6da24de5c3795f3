"""SQLite migrations: copies the file before it changes its schema."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from holdfast.errors import StoreCorrupt
from holdfast.store.clock import Clock
from holdfast.store.sql.dialect import SQLITE, render
from holdfast.store.sql.migrate import MIN_READER, RECORD, AppliedMigration, Migration
from holdfast.store.sqlite.connection import write_application_id
from holdfast.store.sqlite.errors import translate
from holdfast.store.sqlite.filesystem import make_private
from holdfast.store.sqlite.lock_holders import continuing_stopped_writers
from holdfast.store.sqlite.write_lock import WriteLock


class SqliteSchema:
    def __init__(self, connection: apsw.Connection, write_lock: WriteLock, clock: Clock, path: Path) -> None:
        self._connection = connection
        self._write_lock = write_lock
        self._clock = clock
        self._path = path
        self.backup: Path | None = None

    async def list_applied(self) -> list[AppliedMigration]:
        if not self._has("schema_migrations"):
            return []
        rows = self._query("SELECT number, name, digest FROM schema_migrations ORDER BY number")
        if any(not isinstance(row[0], int) for row in rows):
            msg = "the record of migrations is damaged"
            raise StoreCorrupt(msg)
        return [AppliedMigration(*row) for row in rows]

    async def min_reader(self) -> int:
        if not self._has("store_state"):
            return 0
        rows = self._query("SELECT min_reader FROM store_state")
        if not rows:
            return 0
        if not isinstance(rows[0][0], int):
            msg = "the store does not record which versions may read it"
            raise StoreCorrupt(msg)
        return rows[0][0]

    def _has(self, table: str) -> bool:
        return bool(self._query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", table))

    def _query(self, statement: str, *values: str | int) -> list[Any]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except apsw.Error as error:
            raise translate(error, "reading the schema") from error
        except UnicodeDecodeError as error:
            msg = f"the record of migrations is damaged ({error})"
            raise StoreCorrupt(msg) from error

    async def apply(self, *migrations: Migration) -> list[Migration]:
        if not self._write_lock.try_enter():
            # Waiting for the write lock blocks, so another thread does it; what follows is short.
            await asyncio.get_running_loop().run_in_executor(None, self._acquire_lock)
        try:
            return self._apply(migrations)
        except apsw.Error as error:
            raise translate(error, f"migrating to schema {migrations[-1].number}") from error
        finally:
            self._write_lock.leave()

    def _acquire_lock(self) -> None:
        with continuing_stopped_writers(self._path):
            self._write_lock.enter()

    def _apply(self, migrations: Sequence[Migration]) -> list[Migration]:
        # Before the copy is made: a second process would otherwise copy the new schema over the copy of the old one.
        todo = [migration for migration in migrations if not self._is_done(migration)]
        if not todo:
            return []
        self._back_up_once(todo[0])
        # IMMEDIATE: SQLite rejects a transaction that begins by reading, without a wait, when another process has
        # written meanwhile. A process that opens the file for the first time writes without the write lock.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            write_application_id(self._connection)
            for migration in todo:
                self._write(migration)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return todo

    def _write(self, migration: Migration) -> None:
        self._connection.execute(render(RECORD, SQLITE))
        self._connection.execute(migration.script)
        self._connection.execute("UPDATE store_state SET min_reader = max(min_reader, ?)", (MIN_READER,))
        self._connection.execute(
            "INSERT INTO schema_migrations VALUES (?, ?, ?, ?)",
            (migration.number, migration.name, migration.digest, self._clock.wall_us()),
        )

    def _is_done(self, migration: Migration) -> bool:
        return self._has("schema_migrations") and bool(
            self._query("SELECT 1 FROM schema_migrations WHERE number = ?", migration.number)
        )

    def _back_up_once(self, migration: Migration) -> None:
        """Copy a store that holds data before its schema changes; an empty store is not copied."""
        if self.backup is not None or not self._has("store_state"):
            return
        if not self._connection.execute("SELECT 1 FROM store_state").fetchall():
            return
        self.backup = self._path.with_name(f"{self._path.name}.before-{migration.number:04}")
        make_private(self.backup)
        target = apsw.Connection(str(self.backup))
        try:
            self.backup.chmod(0o600)
            with target.backup("main", self._connection, "main") as copy:
                copy.step(-1)
        finally:
            target.close()
