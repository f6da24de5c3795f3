"""Reads the named paragraphs.

    -- name: renew_leases
    -- One sentence that says what is true afterwards, or what the rows are.
    UPDATE …;

A file in `overrides/postgres/` replaces a paragraph of the same name there and starts with `-- why:`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable

from holdfast.store.sql.dialect import Compiled, Dialect, compile_statement

_NAME = "-- name:"
_WHY = "-- why:"


@functools.cache
def statements(dialect: Dialect) -> Mapping[str, Compiled]:
    """Every statement by name, compiled for this dialect."""
    root = resources.files(__package__)
    sources = dict(_paragraphs_in(root / "statements"))
    overrides = root / "overrides" / dialect.name
    if overrides.is_dir():
        sources |= dict(_paragraphs_in(overrides))
    return {name: compile_statement(name, source, dialect) for name, source in sources.items()}


def _paragraphs_in(folder: Traversable) -> Iterator[tuple[str, str]]:
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            yield from paragraphs(file.read_text(encoding="utf-8"))


def paragraphs(text: str) -> Iterator[tuple[str, str]]:
    """The (name, statement) pairs of one file; comments are for readers and are not sent to the database."""
    for chunk in text.split(_NAME)[1:]:
        name, _, body = chunk.partition("\n")
        lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
        yield name.strip(), "\n".join(lines).strip().rstrip(";")


def reasons(text: str) -> list[str]:
    """The `-- why:` lines of an override file."""
    return [line.removeprefix(_WHY).strip() for line in text.splitlines() if line.startswith(_WHY)]
