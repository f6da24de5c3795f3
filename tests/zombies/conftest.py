"""The databases that zombies haunt."""

from tests.fixtures.places import where
from tests.fixtures.stores import postgres_template

__all__ = ["postgres_template", "where"]
