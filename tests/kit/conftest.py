"""Blocking stores for the kit's tests, each with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.kit import Database, get_db
from holdfast.model.ids import RandomIds
from holdfast.model.worker_identity import Identity, ProcessStatus
from holdfast.store.clock import VirtualClock
from tests.support.fixtures.stores import postgres_template

__all__ = ["postgres_template"]


class Empty:
    """A host on which nobody else is alive."""

    def __init__(self, here: Identity) -> None:
        self._here = here

    def here(self) -> Identity:
        return self._here

    def look_up(self, _pid: int) -> ProcessStatus:
        return ProcessStatus.GONE


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def db(request: pytest.FixtureRequest, clock: VirtualClock) -> Iterator[Database]:
    """A fresh store of each kind."""
    match request.param:
        case "memory":
            where = "memory:"
        case "sqlite":
            where = str(request.getfixturevalue("volatile_folder") / "kit.db")
        case _:
            where = request.getfixturevalue("postgres_database")
    with get_db(where, clock=clock, ids=RandomIds()) as database:
        yield database


@pytest.fixture
def file_db(volatile_folder: Path, clock: VirtualClock) -> Iterator[Database]:
    """A fresh SQLite file."""
    with get_db(volatile_folder / "kit.db", clock=clock) as database:
        yield database
