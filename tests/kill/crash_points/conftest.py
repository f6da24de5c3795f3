"""The databases that real processes die over."""

from tests.support.fixtures.store_addresses import where
from tests.support.fixtures.stores import postgres_template

__all__ = ["postgres_template", "where"]
