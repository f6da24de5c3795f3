"""Processes that migrate one store at the same time take turns, and none of them notices the others."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.store.postgres import open as opening
from holdfast.store.postgres.schema import LOCK
from holdfast.store.sql.migrate import migrate
from holdfast.store.sqlite.connection import check_file_is_ours, connect
from holdfast.store.sqlite.filesystem import make_private
from tests.operations.migration.grounds import (
    BOTH,
    Ground,
    PostgresGround,
    Seen,
    SqliteGround,
    advance,
    fill,
    held,
    told,
)
from tests.operations.migration.next_migrations import all_migrations
from tests.store.concurrency.processes import Child


@pytest.mark.parametrize("ground", BOTH, indirect=True)
@pytest.mark.parametrize("begun", [0, 1], ids=["new", "old"])
@pytest.mark.parametrize("rounds", [3, pytest.param(30, marks=pytest.mark.chaos)])
async def test_processes_that_migrate_together_all_succeed(
    ground: Ground, stages: list[Seen], kennel: Child, begun: int, rounds: int
) -> None:
    """Goal: starting two workers on a new version at once is fine. Method: processes that wait on one pipe and open the
    store when it closes, two at a time and five; a new store, and an old one with a job in it."""
    for number in range(rounds):
        place = ground.fresh()
        await advance(place, begun)
        if begun:
            await fill(place)
        count = 5 if number == rounds - 1 else 2
        kennel.tell(json.dumps({"do": "race", "count": count, **told(place)}))
        endings = await asyncio.to_thread(kennel.hear)
        assert [ending["code"] for ending in endings] == [0] * count, endings
        assert len({ending["said"] for ending in endings}) == 1, "they all opened the same store"
        assert await place.seen() == stages[-1]
        if begun:
            assert await held(place) == [("store-of-old", 3), ("job-of-old", "pending")]
        if begun and isinstance(place, SqliteGround):
            assert await SqliteGround(str(place.backup(begun + 1))).seen() == stages[begun]


@pytest.mark.store("sqlite")
async def test_the_slower_of_two_does_not_copy_the_new_schema_over_the_old(
    tmp_path: Path, sqlite_stages: list[Seen]
) -> None:
    """Goal: the copy made before a migration is of the time before. Method: two that both have seen that migration 2 is
    missing; one applies everything, then the other tries."""
    ground = SqliteGround(str(tmp_path / "store.db"))
    await advance(ground, 1)
    await fill(ground)
    listed = all_migrations(ground.dialect)
    async with ground.schema() as quick, ground.schema() as slow:
        await migrate(quick, listed)
        assert not await slow.apply(listed[1])
    assert await SqliteGround(str(ground.backup(2))).seen() == sqlite_stages[1]


@pytest.mark.store("sqlite")
async def test_a_file_that_becomes_ours_while_we_look_is_ours(tmp_path: Path) -> None:
    """Goal: a new file is never taken for somebody else's. Method: at every statement of the look at a new file, let
    another process make the store."""
    for moment in range(1, 4):
        ground = SqliteGround(str(tmp_path / f"store-{moment}.db"))
        make_private(ground.path)
        connection = connect(ground.path)
        seen = 0

        def look(*_: object, ground: SqliteGround = ground, moment: int = moment) -> bool:
            nonlocal seen
            seen += 1
            if seen == moment:
                _make_store(ground)
            return True

        connection.set_exec_trace(look)
        try:
            check_file_is_ours(connection, ground.path)
        finally:
            connection.close()
        assert seen >= moment, "there is no such statement any more"


def _make_store(ground: SqliteGround) -> None:
    """What another process does meanwhile: everything."""

    async def make() -> None:
        await (await ground.open()).close()

    with ThreadPoolExecutor(1) as other:
        other.submit(asyncio.run, make()).result()


@pytest.mark.store("postgres")
async def test_a_long_migration_of_somebody_else_is_waited_for(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: the limits that protect ordinary work do not end a migration. Method: set them to an instant, hold the lock
    of migrations until somebody has waited much longer than that, and let go."""
    for limit in ("lock_timeout", "statement_timeout"):
        monkeypatch.setitem(opening._SESSION, limit, "50ms")
    ground = PostgresGround(postgres_database)
    async with ground.connection() as holder:
        await holder.execute("SELECT pg_advisory_lock($1)", LOCK)
        opened = asyncio.create_task(ground.open())
        while not opened.done() and not await holder.fetchval(_WAITED):
            pass
        assert not opened.done(), "it waited, and was not ended by the limits"
        await holder.execute("SELECT pg_advisory_unlock($1)", LOCK)
        await (await opened).close()


_WAITED = """
SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND wait_event = 'advisory' AND clock_timestamp() - query_start > interval '200 ms'
"""
