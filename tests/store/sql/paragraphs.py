"""The SQL as it is written, with the comments that the loader leaves out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

from holdfast.store.sql import dialect

ROOT = resources.files(dialect.__package__ or "")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """`comment` is the text between the name and the statement, without its dashes."""

    file: str
    name: str
    comment: str
    statement: str


def files(folder: Traversable) -> list[Traversable]:
    return sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name
    )


STATEMENTS = files(ROOT / "statements")
MIGRATIONS = files(ROOT / "migrations")
OVERRIDES = [
    file
    for folder in (ROOT / "overrides").iterdir()
    if folder.is_dir() and not folder.name.startswith("_")
    for file in files(folder)
]


def read(sources: list[Traversable]) -> list[Paragraph]:
    return [paragraph for file in sources for paragraph in _in(file)]


def _in(file: Traversable) -> list[Paragraph]:
    found = []
    for chunk in file.read_text(encoding="utf-8").split("-- name:")[1:]:
        name, _, body = chunk.partition("\n")
        comment = re.match(r"(?:--.*\n)*", body)
        assert comment is not None
        said = " ".join(line.removeprefix("--").strip() for line in comment[0].splitlines())
        found.append(Paragraph(file.name, name.strip(), said, body[comment.end() :].strip()))
    return found


def code(text: str) -> str:
    """The SQL without comments and without what stands in quotes."""
    return re.sub(r"'(?:[^']|'')*'", "''", re.sub(r"--.*", "", text))
