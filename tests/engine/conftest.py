"""The stores that the engine runs on."""

from tests.support.fixtures.stores import backend, postgres_template

__all__ = ["backend", "postgres_template"]
