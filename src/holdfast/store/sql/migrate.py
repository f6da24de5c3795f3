"""Schema migrations: one numbered list, for both databases, from the same source. Migration 1 is the baseline.

Each migration is one transaction together with the row that records it, so a process killed at any point leaves a
schema that is exactly before or exactly after it. A new store gets all of them in one transaction: it exists completely
or not at all, after one wait for the disk. Running the list again does nothing. Of two processes that migrate at once,
the second waits and finds the migrations applied.

A store records the oldest code that may still read it (`min_reader`). Older code is rejected with an error that names
both versions; code from `min_reader` on runs, so that an old and a new version can serve one database during an
upgrade.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from holdfast.errors import SchemaMismatch
from holdfast.store.sql.dialect import Dialect, render
from holdfast.store.sql.loader import HERE

SCHEMA_VERSION: Final = 1
"""The last migration this code knows. A test keeps it equal to the list."""

MIN_READER: Final = 1
"""Code that knows fewer migrations than this may not open a store that this code has made or migrated."""

BASELINE: Final = 1

RECORD: Final = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    number {int} PRIMARY KEY,
    name {text} NOT NULL,
    digest {text} NOT NULL,
    applied_at {int} NOT NULL
) {options}
"""

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_ONLY = re.compile(r"^-- only: (\w+)$", re.MULTILINE)


class Migration(msgspec.Struct, frozen=True):
    number: int
    name: str
    script: str
    digest: str


class AppliedMigration(msgspec.Struct, frozen=True):
    """A row of `schema_migrations`."""

    number: int
    name: str
    digest: str


class Schema(Protocol):
    """The operations that migrating needs from a database."""

    async def list_applied(self) -> list[AppliedMigration]:
        """The applied migrations, in order; empty for an empty database."""
        ...

    async def apply(self, *migrations: Migration) -> list[Migration]:
        """Apply and record the migrations, in one transaction. Returns those that it applied; another process has
        applied the others before."""
        ...

    async def min_reader(self) -> int:
        """The oldest code that may read this store; 0 while it is empty."""
        ...


@functools.cache
def load_migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """All migrations, rendered for this dialect."""
    found = []
    for file in (HERE / "migrations").iterdir():
        match = _FILE.fullmatch(file.name)
        if match is not None:
            source = file.read_text(encoding="utf-8")
            found.append(parse_migration(int(match[1]), match[2], source, dialect))
    return tuple(sorted(found, key=lambda migration: migration.number))


def parse_migration(number: int, name: str, source: str, dialect: Dialect) -> Migration:
    """Render a migration for this dialect. The digest is that of the source: equal on both databases."""
    digest = hashlib.sha256(source.encode()).hexdigest()
    return Migration(number, name, render(for_dialect(source, dialect.name), dialect), digest)


def for_dialect(source: str, name: str) -> str:
    """The parts of a migration that this database runs: everything before the first `-- only:`, and its own part."""
    common, *sections = _ONLY.split(source)
    own = [body for target, body in zip(sections[::2], sections[1::2], strict=True) if target == name]
    return "".join([common, *own])


def check(
    applied: list[AppliedMigration], min_reader: int, migrations: Sequence[Migration]
) -> list[Migration]:
    """The migrations that are still to be applied. Raises SchemaMismatch if this code must not use the store."""
    newest, known_max = _find_newest(applied), migrations[-1].number
    known = {migration.number: migration for migration in migrations}
    if any(row.number == BASELINE and row.name != known[BASELINE].name for row in applied):
        # Before 0.1.0 the schema was a list of migrations that has since become the baseline.
        msg = f"a development version of Holdfast from before 0.1.0 made this store (its schema is {newest})"
        raise SchemaMismatch(
            f"{msg}; there is no migration from it",
            hint="Finish its jobs with the version that made it. Then move the SQLite file away, or run "
            "`DROP SCHEMA holdfast CASCADE` on Postgres; `holdfast db migrate` makes a new store.",
        )
    if newest > known_max and min_reader > known_max:
        msg = (
            f"the store has schema {newest} and needs Holdfast with schema {min_reader}; this has {known_max}"
        )
        raise SchemaMismatch(
            msg, hint="Install the newer Holdfast that migrated this store; there is no way back."
        )
    for row in applied:
        expected = known.get(row.number)
        if expected is not None and expected.digest != row.digest:
            msg = f"migration {row.number} of the store ({row.name}) is not the one this Holdfast has"
            raise SchemaMismatch(
                msg, hint="This store was made by another build. Use that build, or a backup."
            )
    done = {row.number for row in applied}
    return [migration for number, migration in sorted(known.items()) if number not in done]


async def migrate(schema: Schema, migrations: Sequence[Migration]) -> list[Migration]:
    """Apply the missing migrations; return those that this call applied."""
    applied = await schema.list_applied()
    todo = check(applied, await schema.min_reader(), migrations)
    if not applied:
        return await schema.apply(*todo)
    return [done for migration in todo for done in await schema.apply(migration)]


async def require_current(schema: Schema, migrations: Sequence[Migration]) -> None:
    """Raise SchemaMismatch if a migration is missing."""
    applied = await schema.list_applied()
    todo = check(applied, await schema.min_reader(), migrations)
    if todo:
        msg = f"the store has schema {_find_newest(applied)}, this Holdfast needs {migrations[-1].number}"
        raise SchemaMismatch(msg, hint="Run `holdfast db migrate`.")


def _find_newest(applied: list[AppliedMigration]) -> int:
    return max((row.number for row in applied), default=0)
