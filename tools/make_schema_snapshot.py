"""Write `tests/operations/migration/snapshots/` from the migrations: a change of the schema shows in the review.

python -m tools.make_schema_snapshot            # write them
python -m tools.make_schema_snapshot --check    # say what would change, and fail if anything would
"""

from __future__ import annotations

import asyncio
import difflib
import sys
import tempfile
from pathlib import Path

import apsw
import asyncpg

from holdfast.model.ids import SequentialIds
from holdfast.store.clock import VirtualClock
from holdfast.store.postgres.open import open_postgres
from holdfast.store.sqlite.open import open_sqlite
from tests.support.servers import PostgresServer
from tools.schema import format_schema, read_postgres, read_sqlite

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "operations" / "migration" / "snapshots"
SCHEMA = "holdfast"


def find_snapshot_path(database: str) -> Path:
    return FOLDER / f"{database}.txt"


async def describe_sqlite() -> str:
    """The schema of a new file."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        path = Path(folder) / "store.db"
        await (await open_sqlite(path, clock=VirtualClock(), ids=SequentialIds())).close()
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return format_schema(read_sqlite(connection))
        finally:
            connection.close()


async def describe_postgres() -> str:
    """The schema of a new database, on a server of our own."""
    with PostgresServer() as server:
        async with server.fresh_database() as url:
            await (await open_postgres(url, clock=VirtualClock(), ids=SequentialIds(), schema=SCHEMA)).close()
            connection = await asyncpg.connect(url, server_settings={"search_path": SCHEMA})
            try:
                return format_schema(await read_postgres(connection, SCHEMA))
            finally:
                await connection.close()


def diff_snapshot(database: str, now: str) -> list[str]:
    """The lines in which the checked-in snapshot differs from the schema."""
    path = find_snapshot_path(database)
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    return list(
        difflib.unified_diff(kept.splitlines(), now.splitlines(), str(path), "the migrations", lineterm="")
    )


async def make_snapshots() -> dict[str, str]:
    return {"sqlite": await describe_sqlite(), "postgres": await describe_postgres()}


def main() -> None:
    made = asyncio.run(make_snapshots())
    if "--check" in sys.argv[1:]:
        differences = [line for database, now in made.items() for line in diff_snapshot(database, now)]
        if differences:
            print("\n".join(differences))
            sys.exit("The snapshots are old: python -m tools.make_schema_snapshot")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for database, now in made.items():
        find_snapshot_path(database).write_text(now, encoding="utf-8")


if __name__ == "__main__":
    main()
