"""The list of migrations itself, and what applying it from zero gives."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from holdfast.store.sql import migrate as module
from holdfast.store.sql.dialect import POSTGRES, SQLITE, Dialect
from holdfast.store.sql.migrate import (
    MIN_READER,
    SCHEMA_VERSION,
    for_dialect,
    load_migrations,
    migrate,
)
from tests.operations.migration.grounds import BOTH, Ground, Seen
from tests.operations.migration.next_migrations import all_migrations
from tools.make_schema_snapshot import diff_snapshot
from tools.schema import format_schema

FOLDER = resources.files(module.__package__ or "") / "migrations"


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRES], ids=BOTH)
def test_the_list_is_numbered_without_gaps(dialect: Dialect) -> None:
    numbers = [migration.number for migration in load_migrations(dialect)]
    assert numbers == list(range(1, SCHEMA_VERSION + 1))
    assert 1 <= MIN_READER <= SCHEMA_VERSION


def test_every_file_of_the_folder_is_a_migration() -> None:
    """A file with another kind of name would be passed over in silence."""
    names = sorted(file.name for file in FOLDER.iterdir())
    assert names == [f"{number:04}_{name[5:]}" for number, name in enumerate(names, 1)]
    assert all(re.fullmatch(r"\d{4}_[a-z_]+\.sql", name) for name in names)


def test_parts_for_one_database_name_one_we_have() -> None:
    named = {
        name
        for file in FOLDER.iterdir()
        for name in re.findall(r"^-- only:(.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named <= {" sqlite", " postgres"}, "anything else would be applied nowhere"


def test_a_database_gets_what_is_common_and_what_is_its_own() -> None:
    source = "common;\n-- only: sqlite\nfile;\n-- only: postgres\nserver;\n"
    assert for_dialect(source, "sqlite").split() == ["common;", "file;"]
    assert for_dialect(source, "postgres").split() == ["common;", "server;"]


@pytest.mark.parametrize("ground", BOTH, indirect=True)
async def test_the_second_run_does_nothing(ground: Ground, stages: list[Seen]) -> None:
    """Goal: migrating is idempotent. Method: run the list twice, and every migration of it once more by hand."""
    listed = all_migrations(ground.dialect)
    async with ground.schema() as schema:
        assert await migrate(schema, listed) == list(listed)
    dated = await ground.ask("SELECT number, applied_at FROM schema_migrations ORDER BY number")
    async with ground.schema() as schema:
        assert await migrate(schema, listed) == []
        assert [await schema.apply(migration) for migration in listed] == [[]] * len(listed)
    assert await ground.ask("SELECT number, applied_at FROM schema_migrations ORDER BY number") == dated
    assert await ground.seen() == stages[-1]


@pytest.mark.parametrize("ground", BOTH, indirect=True)
def test_from_zero_the_schema_is_the_snapshot(ground: Ground, stages: list[Seen]) -> None:
    """Goal: a change of the schema is seen in a review. Method: compare with the file that is checked in."""
    differences = diff_snapshot(ground.store, format_schema(stages[SCHEMA_VERSION].tables))
    assert not differences, "\n".join([*differences, "", "meant? then: python -m tools.make_schema_snapshot"])
