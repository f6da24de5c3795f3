"""Folders in memory for files that are looked at once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def rebuilt(quick_folder: Path) -> Iterator[Path]:
    """Where one test rebuilds its files, one cut after the other."""
    with tempfile.TemporaryDirectory(dir=quick_folder) as folder:
        yield Path(folder)
