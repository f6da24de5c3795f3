"""Every named place at which a process may die: around each effect, and before and after each call of the store.

`holdfast.testing.faults` strikes there, HOLDFAST_TEST_CRASH_AT ends a real process there, and
`holdfast doctor --crash-points` prints the list.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

from holdfast.engine.points import MEANING
from holdfast.store import ports
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
    names = _of_ports()
    for noun, port in inspect.getmembers(Store, lambda member: isinstance(member, property)):
        if noun == "clock":
            continue  # time is read, not asked for
        for verb, function in vars(get_type_hints(port.fget, localns=names)["return"]).items():
            if inspect.iscoroutinefunction(function):
                yield f"{noun}.{verb}"


def _of_ports() -> dict[str, Any]:
    """The ports by name: the contract itself names them to type checkers alone."""
    listed = [path.stem for folder in ports.__path__ for path in Path(folder).glob("[a-z]*.py")]
    modules = [importlib.import_module(f"{ports.__name__}.{name}") for name in listed]
    return {name: value for module in modules for name, value in vars(module).items()}
