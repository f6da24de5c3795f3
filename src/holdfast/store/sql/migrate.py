"""The schema as one numbered list, for both databases, from the same source.

Each migration is one transaction together with the row that records it, so a process killed at any point leaves a
schema that is exactly before or exactly after it. A store that has none yet gets all of them in one: it is there or it
is not, and the disk is waited for once. Running the list again does nothing. Two processes that migrate at once take
turns, and the second finds its work done.

A store remembers the oldest code that may still read it (`min_reader`). Code from before that is refused, with both
versions named; anything between runs, which is what lets an old and a new version serve one database during an upgrade.
"""

from __future__ import annotations

import functools
import hashlib
import re
from typing import Final, Protocol

import msgspec

from holdfast.errors import SchemaMismatch
from holdfast.store.sql.dialect import Dialect, render
from holdfast.store.sql.loader import HERE

SCHEMA_VERSION: Final = 22
"""The last migration this code knows. A test keeps it equal to the list."""

MIN_READER: Final = 21
"""Code that knows fewer migrations than this may not open a store that this code has made or migrated."""

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


class Applied(msgspec.Struct, frozen=True):
    """A row of the record."""

    number: int
    name: str
    digest: str


class Schema(Protocol):
    """What migrating needs from a database."""

    async def applied(self) -> list[Applied]:
        """What has been applied, in order; nothing for an empty database."""
        ...

    async def apply(self, *migrations: Migration) -> list[Migration]:
        """The migrations and their records are there, in one transaction. Says which of them it was; the others
        somebody else has applied before."""
        ...

    async def min_reader(self) -> int:
        """The oldest code that may read this store; 0 while it is empty."""
        ...


@functools.cache
def migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """The list, rendered for this dialect."""
    found = []
    for file in (HERE / "migrations").iterdir():
        match = _FILE.fullmatch(file.name)
        if match is not None:
            source = file.read_text(encoding="utf-8")
            digest = hashlib.sha256(source.encode()).hexdigest()
            script = render(for_dialect(source, dialect.name), dialect)
            found.append(Migration(int(match[1]), match[2], script, digest))
    return tuple(sorted(found, key=lambda migration: migration.number))


def for_dialect(source: str, name: str) -> str:
    """The parts of a migration that this database runs: everything before the first `-- only:`, and its own."""
    common, *sections = _ONLY.split(source)
    own = [body for target, body in zip(sections[::2], sections[1::2], strict=True) if target == name]
    return "".join([common, *own])


def check(applied: list[Applied], min_reader: int, dialect: Dialect) -> list[Migration]:
    """What is still to do; or SchemaMismatch, when this code must not touch the store."""
    newest = max((row.number for row in applied), default=0)
    if newest > SCHEMA_VERSION and min_reader > SCHEMA_VERSION:
        msg = f"the store has schema {newest} and needs Holdfast with schema {min_reader}; this has {SCHEMA_VERSION}"
        raise SchemaMismatch(
            msg, hint="Install the newer Holdfast that migrated this store; there is no way back."
        )
    known = {migration.number: migration for migration in migrations(dialect)}
    for row in applied:
        ours = known.get(row.number)
        if ours is not None and ours.digest != row.digest:
            msg = f"migration {row.number} of the store ({row.name}) is not the one this Holdfast has"
            raise SchemaMismatch(
                msg, hint="This store was made by another build. Use that build, or a backup."
            )
    done = {row.number for row in applied}
    return [migration for number, migration in sorted(known.items()) if number not in done]


async def migrate(schema: Schema, dialect: Dialect) -> list[Migration]:
    """The schema is this code's; says what was applied."""
    applied = await schema.applied()
    todo = check(applied, await schema.min_reader(), dialect)
    if not applied:
        return await schema.apply(*todo)
    return [done for migration in todo for done in await schema.apply(migration)]


async def require_current(schema: Schema, dialect: Dialect) -> None:
    """Nothing is left to migrate, or SchemaMismatch."""
    applied = await schema.applied()
    todo = check(applied, await schema.min_reader(), dialect)
    if todo:
        have = max((row.number for row in applied), default=0)
        msg = f"the store has schema {have}, this Holdfast needs {SCHEMA_VERSION}"
        raise SchemaMismatch(msg, hint="Run `holdfast db migrate`.")
