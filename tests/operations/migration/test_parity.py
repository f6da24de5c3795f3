"""SQLite and Postgres hold the same schema, as each of them describes it."""

from __future__ import annotations

import re

import pytest

from holdfast.store.backup.tables import TABLES
from tests.operations.migration.grounds import Seen
from tools.schema import Index, Table

pytestmark = pytest.mark.store("sqlite", "postgres")

# Text compares byte by byte on both, or lists would come in two orders.
TYPES = {"TEXT": 'text collate "C"', "INTEGER": "bigint", "BLOB": "bytea"}

# What a backup leaves out, and why.
NOT_DATA = {
    "schema_migrations": "the target is migrated by the code that restores",
    "retention_gate": "open only within a transaction",
    "store_clock": "the target has a clock of its own",
}


@pytest.fixture
def pairs(sqlite_stages: list[Seen], postgres_stages: list[Seen]) -> list[tuple[Table, Table]]:
    """Each table, as SQLite and as Postgres has it."""
    file, server = sqlite_stages[-1].tables, postgres_stages[-1].tables
    assert file.names == server.names
    assert len(file.names) >= 20
    return [(file[name], server[name]) for name in file.names]


def test_columns_are_the_same_and_in_the_same_order(pairs: list[tuple[Table, Table]]) -> None:
    for file, server in pairs:
        translated = [(column.name, TYPES[column.type], column.nullable) for column in file.columns]
        assert translated == [(column.name, column.type, column.nullable) for column in server.columns], (
            file.name
        )
        assert all(column.default is None for column in [*file.columns, *server.columns]), file.name


def test_keys_are_the_same(pairs: list[tuple[Table, Table]]) -> None:
    for file, server in pairs:
        assert file.primary_key, file.name
        assert file.primary_key == server.primary_key, file.name
        assert file.uniques == server.uniques, file.name
        assert file.foreign_keys == server.foreign_keys, file.name


def test_checks_are_as_many(pairs: list[tuple[Table, Table]]) -> None:
    """Each database words its checks in its own way; that one is missing would show."""
    for file, server in pairs:
        assert len(file.checks) == len(server.checks), file.name


def test_indexes_are_the_same(pairs: list[tuple[Table, Table]]) -> None:
    for file, server in pairs:
        assert [_about(file, index) for index in file.indexes] == [
            _about(server, index) for index in server.indexes
        ], file.name


def _about(table: Table, index: Index) -> tuple[object, ...]:
    """The index, and which columns and values its condition names: the wording is each database's own."""
    words = set(re.findall(r"\w+", index.where or ""))
    named = sorted(column.name for column in table.columns if column.name in words)
    values = sorted(re.findall(r"'(\w*)'", index.where or ""))
    return index.name, index.columns, index.unique, index.where is not None, named, values


def test_every_table_is_strict_on_sqlite(pairs: list[tuple[Table, Table]]) -> None:
    """Otherwise SQLite stores 'abc' in a column of numbers, and Postgres does not."""
    assert [file.name for file, _ in pairs if "strict" not in file.options] == []


def test_a_backup_holds_every_table(pairs: list[tuple[Table, Table]]) -> None:
    assert sorted(TABLES) == [file.name for file, _ in pairs if file.name not in NOT_DATA]
    assert len(set(TABLES)) == len(TABLES)


def test_a_backup_holds_parents_before_children(pairs: list[tuple[Table, Table]]) -> None:
    """A row must find what it points to. A table that points to itself is copied with its keys deferred."""
    tables = {file.name: file for file, _ in pairs}
    for place, name in enumerate(TABLES):
        for key in tables[name].foreign_keys:
            if key.table == name:
                assert key.deferrable, f"{name} points to itself and could not be copied row by row"
            else:
                assert key.table in TABLES[:place], f"{name} is copied before {key.table}, which it points to"
