"""Every named place at which a process may die: around each effect, and before and after each call of the store.

`holdfast.testing.faults` strikes there, HOLDFAST_TEST_CRASH_AT ends a real process there, and
`holdfast doctor --crash-points` prints the list.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import get_type_hints

from holdfast.engine.points import MEANING
from holdfast.store.contract import Store


def crash_points() -> dict[str, str]:
    """Point → what is true there."""
    points = {str(point): meaning for point, meaning in MEANING.items()}
    for call in store_calls():
        points[f"{call}:before"] = "the store is about to be asked; nothing of it has happened"
        points[f"{call}:after"] = "the store has done it; nobody has heard yet"
    return points


def store_calls() -> Iterator[str]:
    """`noun.verb` of every call that the nouns of a store answer."""
    for noun, port in inspect.getmembers(Store, lambda member: isinstance(member, property)):
        for verb, function in vars(get_type_hints(port.fget)["return"]).items():
            if inspect.iscoroutinefunction(function):
                yield f"{noun}.{verb}"
