"""The places that migrations are tried out on, and what each of them looks like after every migration."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store.sql.migrate import migrations
from tests.operations.migration.grounds import Ground, PostgresGround, Seen, SqliteGround
from tests.store.concurrency.processes import Child
from tests.support.servers import PostgresServer

_numbers = itertools.count(1)


@pytest.fixture
def ground(request: pytest.FixtureRequest) -> Ground:
    """An empty place for the store named by the parameter."""
    match request.param:
        case "sqlite":
            return SqliteGround(str(request.getfixturevalue("tmp_path") / "store.db"))
        case "postgres":
            url = request.getfixturevalue("migrated_database")
            return PostgresGround(url, f"ground_{next(_numbers)}")
        case other:
            raise pytest.UsageError(f"no database is called {other!r}")


@pytest.fixture(scope="session")
def migrated_database(postgres_server: PostgresServer) -> str:
    """One database for all grounds: each is a schema of its own, which is made much faster than a database."""
    asyncio.run(postgres_server.create_database("grounds"))
    return postgres_server.url("grounds")


@pytest.fixture(scope="session")
def sqlite_stages() -> list[Seen]:
    """The schema of a file after 0, 1, 2 … migrations."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        return asyncio.run(_stages(SqliteGround(str(Path(folder) / "store.db"))))


@pytest.fixture(scope="session")
def postgres_stages(migrated_database: str) -> list[Seen]:
    """The schema of a database after 0, 1, 2 … migrations."""
    return asyncio.run(_stages(PostgresGround(migrated_database, "stages")))


async def _stages(ground: Ground) -> list[Seen]:
    stages = [await ground.seen()]
    async with ground.schema() as schema:
        for migration in migrations(ground.dialect):
            assert await schema.apply(migration)
            stages.append(await ground.seen())
    return stages


@pytest.fixture
def stages(ground: Ground, request: pytest.FixtureRequest) -> list[Seen]:
    """What this ground has to look like after 0, 1, 2 … migrations."""
    found: list[Seen] = request.getfixturevalue(f"{ground.store}_stages")
    return found


@pytest.fixture(scope="session")
def kennel() -> Iterator[Child]:
    """A process that forks others, which migrate together or die on the way; see `victims`."""
    process = Child("tests.operations.migration.victims")
    try:
        yield process
    finally:
        process.close()
