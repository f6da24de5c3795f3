"""The stores that agents run on."""

from tests.support.fixtures.stores import backend, postgres_template

__all__ = ["backend", "postgres_template"]
