"""Statement loader: reads the named paragraphs of the .sql files.

    -- name: renew_leases
    -- One sentence that says what it does, what its rows are, and what no row means.
    UPDATE …;

A file in `overrides/postgres/` replaces a paragraph of the same name there and starts with `-- why:`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from holdfast.store.sql.dialect import CompiledStatement, Dialect, compile_statement

HERE: Final = Path(__file__).parent
_NAME = "-- name:"
_WHY = "-- why:"


class Statements(Mapping[str, CompiledStatement]):
    """Every statement by name, for one dialect. Each is compiled when it is first used: a process that runs jobs uses a
    tenth of them."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._sources = {
            **_read_paragraphs(HERE / "statements"),
            **_read_paragraphs(HERE / "overrides" / dialect.name),
        }
        self._compiled: dict[str, CompiledStatement] = {}

    def __getitem__(self, name: str) -> CompiledStatement:
        if name not in self._compiled:
            self._compiled[name] = compile_statement(name, self._sources[name], self._dialect)
        return self._compiled[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


@functools.cache
def load_statements(dialect: Dialect) -> Statements:
    """The statements of this dialect, loaded once."""
    return Statements(dialect)


def _read_paragraphs(folder: Path) -> dict[str, str]:
    """The statements of a folder by name; empty if the folder does not exist."""
    files = sorted(folder.glob("*.sql"))
    return {name: body for file in files for name, body in load_paragraphs(file.read_text(encoding="utf-8"))}


def load_paragraphs(text: str) -> Iterator[tuple[str, str]]:
    """The (name, statement) pairs of one file. Comments are not sent to the database."""
    for chunk in text.split(_NAME)[1:]:
        name, _, body = chunk.partition("\n")
        lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
        yield name.strip(), "\n".join(lines).strip().rstrip(";")


def load_reasons(text: str) -> list[str]:
    """The `-- why:` lines of an override file."""
    return [line.removeprefix(_WHY).strip() for line in text.splitlines() if line.startswith(_WHY)]
