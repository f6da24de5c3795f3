"""The databases that races are run on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.concurrency.stores import Place
from tests.support.fixtures.stores import postgres_template

__all__ = ["folder", "place", "postgres_template"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the test's own with a short name: the path of a unix socket may have 100 characters."""
    with tempfile.TemporaryDirectory(prefix="hf-") as name:
        yield Path(name)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    """A database of the store named by the parameter, which any process can open."""
    match request.param:
        case "sqlite":
            return Place("sqlite", str(request.getfixturevalue("folder") / "store.db"))
        case "postgres":
            return Place("postgres", request.getfixturevalue("postgres_database"))
        case other:
            raise pytest.UsageError(f"no store is called {other!r}")
