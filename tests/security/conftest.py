"""SQLite behind a real server, as in tests/service."""

from tests.cli.conftest import desk
from tests.fixtures.stores import postgres_template
from tests.service.conftest import backend

__all__ = ["backend", "desk", "postgres_template"]
