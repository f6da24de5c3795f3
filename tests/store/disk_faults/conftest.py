"""A store to disturb: made once, copied for every try."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.store.disk_faults.workload import open_store, undisturbed

FreshCopy: TypeAlias = Callable[[], Path]


@pytest.fixture(scope="module")
def template(quick_folder: Path) -> bytes:
    """An empty store, as the one file that a closed store is."""
    path = quick_folder / "template.db"

    async def make() -> None:
        await (await open_store(path)).close()

    asyncio.run(make())
    return path.read_bytes()


@pytest.fixture(scope="module")
def pictures(template: bytes, quick_folder: Path) -> list[str]:
    path = quick_folder / "undisturbed.db"
    path.write_bytes(template)
    return asyncio.run(undisturbed(path))


@pytest.fixture
def fresh_copy(template: bytes, quick_folder: Path) -> FreshCopy:
    """A new store with each call."""
    numbers = itertools.count(1)

    def copy() -> Path:
        path = quick_folder / f"copy-{next(numbers)}.db"
        for old in quick_folder.glob(f"{path.name}*"):
            if old.is_file():
                old.unlink()
        path.write_bytes(template)
        return path

    return copy
