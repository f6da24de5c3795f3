"""A database's schema as the database itself describes it, in one shape for SQLite and Postgres.

Two schemas can be compared field by field, and `format_schema` writes one down for people and for `diff`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apsw
import asyncpg


@dataclass(frozen=True, slots=True)
class Column:
    """`type` is the database's own word for it, with the collation where that is not the default."""

    name: str
    type: str
    nullable: bool
    default: str | None


@dataclass(frozen=True, slots=True)
class ForeignKey:
    columns: tuple[str, ...]
    table: str
    targets: tuple[str, ...]
    deferrable: bool


@dataclass(frozen=True, slots=True)
class Index:
    """One that was asked for by name; what a key or a unique constraint brings along is not listed."""

    name: str
    columns: tuple[str, ...]
    unique: bool
    where: str | None


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    options: tuple[str, ...]
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    uniques: tuple[tuple[str, ...], ...]
    foreign_keys: tuple[ForeignKey, ...]
    checks: tuple[str, ...]
    indexes: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Trigger:
    name: str
    table: str
    body: str


@dataclass(frozen=True, slots=True)
class Schema:
    """Sorted by name, all of it, except columns: their order is part of the schema."""

    tables: tuple[Table, ...] = ()
    triggers: tuple[Trigger, ...] = ()

    def __getitem__(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)

    @property
    def names(self) -> list[str]:
        return [table.name for table in self.tables]


# ── as text ───────────────────────────────────────────────────────────────────────────────────────


def format_schema(schema: Schema) -> str:
    """The schema in lines that only change where the schema changes."""
    parts = ["\n".join(_format_table(table)) for table in schema.tables]
    parts += [f"trigger {trigger.name} on {trigger.table}\n    {trigger.body}" for trigger in schema.triggers]
    return "\n\n".join(parts) + "\n"


def _format_table(table: Table) -> Iterator[str]:
    yield " ".join(["table", table.name, *(f"[{option}]" for option in table.options)])
    for column in table.columns:
        default = f" default {column.default}" if column.default else ""
        yield f"    {column.name:<20} {column.type}{'' if column.nullable else ' not null'}{default}"
    yield f"    primary key {_format_columns(table.primary_key)}"
    for unique in table.uniques:
        yield f"    unique {_format_columns(unique)}"
    for key in table.foreign_keys:
        late = " deferrable" if key.deferrable else ""
        yield f"    foreign key {_format_columns(key.columns)} to {key.table} {_format_columns(key.targets)}{late}"
    for check in table.checks:
        yield f"    check {check}"
    for index in table.indexes:
        where = f" where {index.where}" if index.where else ""
        yield f"    {'unique ' if index.unique else ''}index {index.name} {_format_columns(index.columns)}{where}"


def _format_columns(columns: tuple[str, ...]) -> str:
    return f"({', '.join(columns)})"


def _join_words(words: str) -> str:
    return " ".join(words.split())


# ── from SQLite ───────────────────────────────────────────────────────────────────────────────────


def read_sqlite(connection: apsw.Connection) -> Schema:
    """What the file holds; an empty schema for an empty file."""
    tables = _query(
        connection,
        "SELECT name, strict, wr FROM pragma_table_list WHERE schema = 'main' AND name NOT GLOB 'sqlite_*'",
    )
    triggers = _query(connection, "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'")
    return Schema(
        tuple(sorted((_read_sqlite_table(connection, *row) for row in tables), key=lambda table: table.name)),
        tuple(
            sorted(
                (Trigger(name, on, _join_words(sql)) for name, on, sql in triggers),
                key=lambda made: made.name,
            )
        ),
    )


def _query(connection: apsw.Connection, statement: str, *values: str) -> list[Any]:
    return connection.execute(statement, values).fetchall()


def _read_sqlite_table(connection: apsw.Connection, name: str, strict: int, without_rowid: int) -> Table:
    ((sql,),) = _query(connection, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", name)
    declared = _join_words(re.sub(r"--.*", "", sql))
    columns = _query(
        connection,
        'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?) ORDER BY cid',
        name,
    )
    keys = sorted((place, column) for column, _, _, _, place in columns if place)
    indexes = _query(connection, 'SELECT name, "unique", origin FROM pragma_index_list(?)', name)
    return Table(
        name=name,
        options=("strict",) * strict + ("without rowid",) * without_rowid,
        # SQLite does not say so of an integer key, which is its row number: it is never NULL either.
        columns=tuple(
            Column(column, kind, not (filled or place), default)
            for column, kind, filled, default, place in columns
        ),
        primary_key=tuple(column for _, column in keys),
        uniques=tuple(
            sorted(_read_index_columns(connection, index) for index, _, origin in indexes if origin == "u")
        ),
        foreign_keys=tuple(_read_sqlite_foreign_keys(connection, name, declared)),
        checks=tuple(sorted(_find_checks(declared))),
        indexes=tuple(
            sorted(
                (
                    Index(
                        index,
                        _read_index_columns(connection, index),
                        bool(unique),
                        _read_predicate(connection, index),
                    )
                    for index, unique, origin in indexes
                    if origin == "c"
                ),
                key=lambda index: index.name,
            )
        ),
    )


def _read_index_columns(connection: apsw.Connection, index: str) -> tuple[str, ...]:
    rows = _query(
        connection, 'SELECT name, "desc" FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno', index
    )
    return tuple(f"{name} desc" if falling else str(name) for name, falling in rows)


def _read_predicate(connection: apsw.Connection, index: str) -> str | None:
    ((sql,),) = _query(connection, "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?", index)
    _, _, where = _join_words(sql).partition(" WHERE ")
    return where or None


def _read_sqlite_foreign_keys(connection: apsw.Connection, table: str, declared: str) -> list[ForeignKey]:
    rows = _query(
        connection, 'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq', table
    )
    keys = []
    for number in sorted({row[0] for row in rows}):
        parts = [row for row in rows if row[0] == number]
        columns, targets = tuple(row[2] for row in parts), tuple(row[3] for row in parts)
        late = f"FOREIGN KEY {_format_columns(columns)} REFERENCES {parts[0][1]} {_format_columns(targets)} DEFERRABLE"
        keys.append(ForeignKey(columns, parts[0][1], targets, late in declared))
    return sorted(keys, key=lambda key: key.columns)


def _find_checks(declared: str) -> Iterator[str]:
    """What stands in the parentheses after each CHECK."""
    for found in re.finditer(r"\bCHECK \(", declared):
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(declared[end], 0)
            end += 1
        yield declared[found.end() - 1 : end]


# ── from Postgres ─────────────────────────────────────────────────────────────────────────────────

_TABLES = """
SELECT c.oid, c.relname, coalesce(c.reloptions, '{}') FROM pg_class c
WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r' ORDER BY c.relname COLLATE "C"
"""
_COLUMNS = """
SELECT a.attrelid, a.attname, a.attnum, a.attnotnull,
       format_type(a.atttypid, a.atttypmod)
           || CASE WHEN a.attcollation <> t.typcollation THEN ' collate "' || o.collname || '"' ELSE '' END,
       pg_get_expr(d.adbin, d.adrelid, true)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation o ON o.oid = a.attcollation
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ANY($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum
"""
_CONSTRAINTS = """
SELECT conrelid, contype::text, conkey, confrelid::regclass::text, confrelid, confkey, condeferrable,
       pg_get_constraintdef(oid, true)
FROM pg_constraint WHERE conrelid = ANY($1) AND contype::text = ANY(ARRAY['p', 'u', 'f', 'c'])
"""
_INDEXES = """
SELECT i.indrelid, c.relname, i.indisunique, pg_get_expr(i.indpred, i.indrelid, true),
       ARRAY(SELECT pg_get_indexdef(i.indexrelid, k, true)
                    || CASE WHEN i.indoption[k - 1] & 1 = 1 THEN ' desc' ELSE '' END
             FROM generate_series(1, i.indnkeyatts) AS k ORDER BY k)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = ANY($1)
  AND NOT EXISTS (SELECT 1 FROM pg_constraint o WHERE o.conindid = i.indexrelid AND o.contype IN ('p', 'u'))
ORDER BY c.relname COLLATE "C"
"""
_TRIGGERS = """
SELECT t.tgname, c.relname, pg_get_triggerdef(t.oid, true), p.prosrc
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = ANY($1) AND NOT t.tgisinternal ORDER BY t.tgname COLLATE "C"
"""


async def read_postgres(connection: asyncpg.Connection[Any], schema: str) -> Schema:
    """What the schema holds, as this transaction sees it; the connection's search path must name the schema."""
    tables = await connection.fetch(_TABLES, schema)
    ids = [row[0] for row in tables]
    columns = await connection.fetch(_COLUMNS, ids)
    constraints = await connection.fetch(_CONSTRAINTS, ids)
    indexes = await connection.fetch(_INDEXES, ids)
    triggers = await connection.fetch(_TRIGGERS, ids)
    names = {(row[0], row[2]): str(row[1]) for row in columns}
    return Schema(
        tuple(_read_postgres_table(row, columns, constraints, indexes, names) for row in tables),
        tuple(Trigger(name, on, _join_words(f"{made}: {body}")) for name, on, made, body in triggers),
    )


def _read_postgres_table(
    table: Any,
    columns: list[Any],
    constraints: list[Any],
    indexes: list[Any],
    names: dict[tuple[int, int], str],
) -> Table:
    oid, name, options = table

    def get_names(numbers: list[int], owner: int = oid) -> tuple[str, ...]:
        return tuple(names[owner, number] for number in numbers)

    own = [row for row in constraints if row[0] == oid]
    return Table(
        name=name,
        options=tuple(options),
        columns=tuple(Column(row[1], row[4], not row[3], row[5]) for row in columns if row[0] == oid),
        primary_key=next((get_names(row[2]) for row in own if row[1] == "p"), ()),
        uniques=tuple(sorted(get_names(row[2]) for row in own if row[1] == "u")),
        foreign_keys=tuple(
            sorted(
                (
                    ForeignKey(get_names(row[2]), row[3], get_names(row[5], row[4]), row[6])
                    for row in own
                    if row[1] == "f"
                ),
                key=lambda key: key.columns,
            )
        ),
        checks=tuple(sorted(row[7].removeprefix("CHECK ") for row in own if row[1] == "c")),
        indexes=tuple(Index(row[1], tuple(row[4]), row[2], row[3]) for row in indexes if row[0] == oid),
    )
