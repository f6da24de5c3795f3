"""Databases inside a server: one per test, copied from a template that is prepared once."""

from __future__ import annotations

import importlib

import pytest

from tests.support.servers import PostgresServer

asyncpg = importlib.import_module("asyncpg")  # untyped; this way it is Any under every setting of the checker


async def test_each_test_gets_its_own_database(postgres_server: PostgresServer) -> None:
    """A template is prepared once; each copy has its rows; what one copy changes, the next does not see."""
    prepared: list[str] = []

    async def prepare(url: str) -> None:
        prepared.append(url)
        connection = await asyncpg.connect(url)
        await connection.execute("CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
        await connection.close()

    for _ in range(2):
        base = await postgres_server.template('odd "name"', prepare)
        async with postgres_server.fresh_database(base) as url:
            connection = await asyncpg.connect(url)
            assert await connection.fetch("SELECT n FROM t") == [(7,)]
            await connection.execute("DELETE FROM t")
            # Left open on purpose: the drop must cut it off.
        connection.terminate()
        with pytest.raises(asyncpg.InvalidCatalogNameError):
            await asyncpg.connect(url)
    assert len(prepared) == 1
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
        await asyncpg.connect(prepared[0])


async def test_a_template_that_fails_is_tried_again(postgres_server: PostgresServer) -> None:
    """An error while preparing reaches the test and leaves no half-made template."""
    outcomes = iter([ZeroDivisionError("first"), None])

    async def prepare(url: str) -> None:
        if error := next(outcomes):
            raise error

    with pytest.raises(ZeroDivisionError):
        await postgres_server.template("half", prepare)
    assert await postgres_server.template("half", prepare) == "half"


async def test_the_fixtures_give_usable_addresses(
    postgres_database: str, durable_postgres_database: str
) -> None:
    """Both database fixtures connect; only the durable one flushes."""
    flushing = []
    for url in (postgres_database, durable_postgres_database):
        connection = await asyncpg.connect(url)
        flushing.append(await connection.fetchval("SHOW fsync"))
        await connection.close()
    assert flushing == ["off", "on"]
