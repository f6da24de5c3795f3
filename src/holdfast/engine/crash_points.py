"""Crash points: named places at which a process may die, around each side effect and each call of the store.

In production nothing happens there. A test passes a function that ends the process (or pretends to) at a chosen place,
and then checks what recovery does. `holdfast doctor --crash-points` lists them.

A test's store fails there, and HOLDFAST_TEST_CRASH_AT ends a real process there.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, get_type_hints

from holdfast.store import ports
from holdfast.store.contract import Store


class Point(StrEnum):
    BEFORE_INTENT = "before_intent"
    AFTER_INTENT = "after_intent_before_call"
    AFTER_SUCCESS = "after_tool_success_before_receipt"
    BEFORE_LEDGER = "after_tool_success_before_ledger_commit"
    AFTER_LEDGER = "after_ledger_mark_succeeded"


MEANING = {
    Point.BEFORE_INTENT: "nothing is on disk yet",
    Point.AFTER_INTENT: "the intent is durable, the call is not made",
    Point.AFTER_SUCCESS: "the call was made, its outcome is known to this process only",
    Point.BEFORE_LEDGER: "the outcome is on its way to the disk",
    Point.AFTER_LEDGER: "the outcome is durable, the code has not seen it",
}

Points = Callable[[Point, str], None]
"""Called at every point that is reached, with the name of the tool."""


def ignore_point(_point: Point, _tool: str) -> None:
    """The default: does nothing."""


def crash_points() -> dict[str, str]:
    """Point → what is true there."""
    points = {str(point): meaning for point, meaning in MEANING.items()}
    for call in store_calls():
        points[f"{call}:before"] = "the store is about to be asked; nothing of it has happened"
        points[f"{call}:after"] = "the store has committed it; the caller does not know yet"
    return points


def store_calls() -> Iterator[str]:
    """`noun.verb` of every call of a store."""
    names = _load_ports()
    for noun, port in inspect.getmembers(Store, lambda member: isinstance(member, property)):
        if noun == "clock":
            continue  # the clock is read without a call to the store
        for verb, function in vars(get_type_hints(port.fget, localns=names)["return"]).items():
            if inspect.iscoroutinefunction(function):
                yield f"{noun}.{verb}"


def _load_ports() -> dict[str, Any]:
    """The ports by name: the contract imports them for type checkers only."""
    listed = [path.stem for folder in ports.__path__ for path in Path(folder).glob("[a-z]*.py")]
    modules = [importlib.import_module(f"{ports.__name__}.{name}") for name in listed]
    return {name: value for module in modules for name, value in vars(module).items()}
