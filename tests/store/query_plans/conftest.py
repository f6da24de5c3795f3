"""The plans of all hot statements on a store with a crowd in it, made once."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import asyncpg
import pytest

from holdfast.model.ids import SequentialIds
from holdfast.store.clock import VirtualClock
from holdfast.store.postgres.open import open_postgres
from holdfast.store.sqlite.open import open_sqlite
from tests.store.query_plans import crowd
from tests.store.query_plans.calls import HOT, HOT_ON_POSTGRES, POINTS
from tests.store.query_plans.explain import Plan, PostgresPlans, sqlite_plan
from tests.support.servers import PostgresServer

Plans: TypeAlias = Mapping[str, Mapping[str, Plan]]


@pytest.fixture(scope="session")
def sqlite_plans() -> Plans:
    """By what the planner knows (nothing, as in every store; or all, if somebody ran ANALYZE), and by statement."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        path = Path(folder) / "store.db"
        asyncio.run(_new_file(path))
        connection = apsw.Connection(str(path))
        try:
            _fill_file(connection)
            plain = {name: sqlite_plan(connection, name, call) for name, call in HOT.items()}
            connection.execute("ANALYZE")
            analysed = {name: sqlite_plan(connection, name, call) for name, call in HOT.items()}
        finally:
            connection.close()
    return {"plain": plain, "analysed": analysed}


async def _new_file(path: Path) -> None:
    await (await open_sqlite(path, clock=VirtualClock(), ids=SequentialIds())).close()


def _fill_file(connection: apsw.Connection) -> None:
    with connection:
        connection.execute("DELETE FROM store_state; DELETE FROM namespaces")
        for table, rows in crowd.rows():
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


@pytest.fixture(scope="session")
def postgres_plans(postgres_server: PostgresServer) -> Plans:
    """By when the plan is made, and by statement: without statistics, after some calls, and for any values at all."""

    async def look() -> Plans:
        async with postgres_server.fresh_database() as url:
            await (await open_postgres(url, clock=VirtualClock(), ids=SequentialIds())).close()
            connection = await asyncpg.connect(url, server_settings={"search_path": "holdfast"})
            try:
                await _fill_server(connection)
                plans = await _plans_on(connection)
                young = {name: await plans.general(name, HOT_ON_POSTGRES[name]) for name in POINTS}
                await connection.execute("ANALYZE")
                settled = {name: await plans.settled(name, call) for name, call in HOT_ON_POSTGRES.items()}
                general = {name: await plans.general(name, call) for name, call in HOT_ON_POSTGRES.items()}
                return {"young": young, "settled": settled, "general": general}
            finally:
                await connection.close()

    return asyncio.run(look())


async def _fill_server(connection: asyncpg.Connection[Any]) -> None:
    await connection.execute("TRUNCATE store_state, namespaces CASCADE")
    for table, rows in crowd.rows():
        # Nobody counts rows behind our back.
        await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        await connection.copy_records_to_table(table, records=rows)


async def _plans_on(connection: asyncpg.Connection[Any]) -> PostgresPlans:
    keys = await connection.fetch(
        "SELECT i.relname, t.relname FROM pg_constraint o JOIN pg_class i ON i.oid = o.conindid "
        "JOIN pg_class t ON t.oid = o.conrelid WHERE o.contype IN ('p', 'u')"
    )
    return PostgresPlans(connection, {row[0]: row[1] for row in keys})
