"""Three stores at once, and, for what the machines have found, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.store.property.three_stores import Trio
from tests.support.fixtures.stores import backend, postgres_template
from tests.support.servers import PostgresServer

__all__ = ["backend", "postgres_template", "trio"]

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder inside it is private


@pytest.fixture(scope="module")
def trio(postgres_server: PostgresServer) -> Iterator[Trio]:
    """The stores of one file, on one event loop. The file lies in memory where there is such a place: no test here is
    about power."""
    place = _IN_MEMORY if _IN_MEMORY.is_dir() else None
    with TemporaryDirectory(dir=place) as folder, asyncio.Runner() as runner:
        databases = postgres_server.fresh_database()
        url = runner.run(databases.__aenter__())
        stores = Trio(runner, Path(folder) / "store.db", url)
        try:
            yield stores
        finally:
            stores.close()
            runner.run(databases.__aexit__(None, None, None))
