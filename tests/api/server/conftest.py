"""SQLite behind a real server, as most people run it; Postgres where databases could differ."""

import pytest

from tests.support.fixtures.stores import AnyBackend, SqliteBackend, make_backend, postgres_template

__all__ = ["backend", "postgres_template"]


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> AnyBackend:
    if hasattr(request, "param"):
        return make_backend(request)
    return SqliteBackend(request.getfixturevalue("volatile_folder"))
