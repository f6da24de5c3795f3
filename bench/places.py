"""A fresh database for one contestant: a file, or a database on the server. Its size can be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import asyncpg

from holdfast.model.ids import RandomIds
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store, Tier
from holdfast.store.postgres.open import open_postgres
from holdfast.store.sqlite.connection import connect
from holdfast.store.sqlite.open import open_sqlite

_DATABASE_BYTES = """
SELECT CAST(sum(pg_total_relation_size(c.oid)) AS bigint)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
"""


class Place(Protocol):
    @property
    def address(self) -> str:
        """As an application names its store."""
        ...

    async def open_store(self) -> Store:
        """Holdfast as production opens it, at full durability."""
        ...

    async def vacuum(self) -> None:
        """What was removed is room for what comes, as the database sees to by itself in time."""
        ...

    async def analyze(self) -> None:
        """The database knows how much there is, as it finds out by itself within a minute."""
        ...

    async def size(self) -> int:
        """Bytes on disk: tables and indexes, with no log left to replay."""
        ...


class File:
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def address(self) -> str:
        return f"sqlite:///{self.path}"

    async def open_store(self) -> Store:
        store = await open_sqlite(self.path, clock=SystemClock(), ids=RandomIds())
        assert store.tier is Tier.SQLITE, "measured at full durability or not at all"
        return store

    async def vacuum(self) -> None: ...

    async def analyze(self) -> None: ...

    async def size(self) -> int:
        db = connect(self.path)
        try:
            busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
        finally:
            db.close()
        assert not busy, "somebody reads or writes while the file is weighed"
        return self.path.stat().st_size


class Database:
    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def address(self) -> str:
        return self.url

    async def open_store(self) -> Store:
        store = await open_postgres(self.url, ids=RandomIds())
        assert store.tier is Tier.POSTGRES, "measured at full durability or not at all"
        return store

    async def vacuum(self) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute("VACUUM")
        finally:
            await connection.close()

    async def analyze(self) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute("ANALYZE")
        finally:
            await connection.close()

    async def size(self) -> int:
        connection = await asyncpg.connect(self.url)
        try:
            return int(await connection.fetchval(_DATABASE_BYTES) or 0)
        finally:
            await connection.close()
