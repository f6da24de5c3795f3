"""Which code may open which store."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import SchemaMismatch
from holdfast.model.jobs import JobDraft
from holdfast.store.sql.migrate import MIN_READER, SCHEMA_VERSION
from tests.operations.migration.grounds import BOTH, Ground, Seen, SqliteGround, advance, fill, held
from tests.operations.migration.next_migrations import LAST

FUTURE = 99
STATE = "SELECT store_id, epoch, min_reader FROM store_state"

pytestmark = pytest.mark.parametrize("ground", BOTH, indirect=True)


async def _refused(ground: Ground, *, migrating: bool = True, of_today: bool = False) -> SchemaMismatch:
    """The reason why the store does not open; nothing has changed."""
    before, files = await ground.seen(), _files(ground)
    with pytest.raises(SchemaMismatch) as refused:
        await ground.open(migrating=migrating, of_today=of_today)
    assert await ground.seen() == before
    assert _files(ground) == files
    return refused.value


def _files(ground: Ground) -> dict[str, bytes]:
    """The database and its copies. The locks and the log beside it come and go."""
    if not isinstance(ground, SqliteGround):
        return {}
    ours = [path for path in ground.path.parent.iterdir() if path.is_file() and "-" not in path.suffix]
    return {path.name: path.read_bytes() for path in [*ours, *_copies(ground)]}


def _copies(ground: SqliteGround) -> list[Path]:
    return list(ground.path.parent.glob("*.before-*"))


async def _made(ground: Ground, *, min_reader: int, number: int = FUTURE) -> None:
    """A store that code of the future has migrated."""
    await (await ground.open(of_today=True)).close()
    await ground.run(
        f"INSERT INTO schema_migrations VALUES ({number}, 'of_the_future', 'digest', 0);"
        f"UPDATE store_state SET min_reader = {min_reader}"
    )


@pytest.mark.parametrize("migrating", [True, False], ids=["migrating", "not"])
async def test_a_schema_of_the_future_is_refused(ground: Ground, migrating: bool) -> None:
    await _made(ground, min_reader=FUTURE)
    state = await ground.ask(STATE)
    error = await _refused(ground, migrating=migrating, of_today=True)
    assert f"schema {FUTURE}" in str(error)
    assert f"this has {SCHEMA_VERSION}" in str(error)
    assert "newer Holdfast" in error.hint
    assert await ground.ask(STATE) == state


@pytest.mark.parametrize("migrating", [True, False], ids=["migrating", "not"])
async def test_a_newer_schema_that_we_may_read_opens(ground: Ground, migrating: bool) -> None:
    """Goal: old and new code share a database during an upgrade. Method: a migration we do not know, which says that
    code like ours may stay; we work, and leave its marks alone."""
    await _made(ground, min_reader=SCHEMA_VERSION, number=SCHEMA_VERSION + 1)
    store = await ground.open(migrating=migrating, of_today=True)
    try:
        submitted = await store.jobs.submit(JobDraft(kind="work"))
        assert (await store.jobs.head(submitted.job_id)).head_seq == 1
    finally:
        await store.close()
    assert (await ground.ask(STATE))[0][2] == SCHEMA_VERSION
    assert (await ground.seen()).applied[-1].number == SCHEMA_VERSION + 1


@pytest.mark.parametrize("migrating", [True, False], ids=["migrating", "not"])
async def test_a_migration_that_was_edited_is_refused(ground: Ground, migrating: bool) -> None:
    await (await ground.open()).close()
    await ground.run("UPDATE schema_migrations SET digest = 'another' WHERE number = 3")
    error = await _refused(ground, migrating=migrating)
    assert "migration 3" in str(error)
    assert "another build" in error.hint


@pytest.mark.parametrize("migrating", [True, False], ids=["migrating", "not"])
async def test_a_store_from_before_the_baseline_is_refused(ground: Ground, migrating: bool) -> None:
    """Goal: who has a store of a development version is told what to do. Method: the record of migrations as the last
    of those versions left it; nothing is changed, and the error has the way out."""
    await (await ground.open(of_today=True)).close()
    await ground.run(
        "UPDATE schema_migrations SET name = 'store', digest = 'another' WHERE number = 1;"
        "INSERT INTO schema_migrations VALUES (22, 'suspects', 'digest', 0);"
        "UPDATE store_state SET min_reader = 21"
    )
    error = await _refused(ground, migrating=migrating, of_today=True)
    assert "a development version of Holdfast from before 0.1.0" in str(error)
    assert "its schema is 22" in str(error)
    assert "move the SQLite file away" in error.hint
    assert "`holdfast db migrate` makes a new store" in error.hint


@pytest.mark.parametrize("begun", [SCHEMA_VERSION, LAST - 1])
async def test_an_older_schema_names_the_remedy(ground: Ground, stages: list[Seen], begun: int) -> None:
    """Goal: who may not migrate is told who may. Method: old stores, opened without leave to migrate."""
    await advance(ground, begun)
    await fill(ground)
    error = await _refused(ground, migrating=False)
    assert f"schema {begun}" in str(error)
    assert f"needs {LAST}" in str(error)
    assert "`holdfast db migrate`" in error.hint
    assert await ground.seen() == stages[begun]


async def test_an_empty_place_is_an_older_schema(ground: Ground, stages: list[Seen]) -> None:
    with pytest.raises(SchemaMismatch, match="schema 0"):
        await ground.open(migrating=False)
    assert await ground.seen() == stages[0]


@pytest.mark.parametrize("begun", range(SCHEMA_VERSION, LAST))
async def test_every_older_schema_is_brought_up_to_ours(
    ground: Ground, stages: list[Seen], begun: int
) -> None:
    """Goal: no store is left behind. Method: stores of every age with something in them; open, compare, and see that
    older code would now be refused as it is from a store that was made today."""
    await advance(ground, begun)
    await fill(ground)
    before = await held(ground)
    await (await ground.open()).close()
    assert await ground.seen() == stages[-1]
    assert (await held(ground))[: len(before)] == before
    assert (await ground.ask(STATE))[0][2] == MIN_READER
