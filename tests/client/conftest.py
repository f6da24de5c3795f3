"""The stores that a client speaks over."""

from tests.fixtures.stores import backend, postgres_template

__all__ = ["backend", "postgres_template"]
