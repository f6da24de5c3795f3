"""The stores to look into."""

from tests.fixtures.stores import backend, postgres_template

__all__ = ["backend", "postgres_template"]
