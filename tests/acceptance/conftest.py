"""The stores as they run in production: Postgres on a server that flushes all it acknowledges."""

from __future__ import annotations

import pytest

from tests.support.fixtures.stores import AnyBackend, make_backend, postgres_template

__all__ = ["postgres_template"]


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> AnyBackend:
    return make_backend(request, power_cuts=True)
