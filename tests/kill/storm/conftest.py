"""Databases for storms."""

from __future__ import annotations

import pytest

from tests.support.fixtures.store_addresses import where
from tests.support.fixtures.stores import postgres_template

__all__ = ["postgres_template", "where"]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    """The store that `where` is the address of."""
    return str(request.param)
