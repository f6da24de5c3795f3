"""Named places at which a process may die: around every effect, and around every trip to the disk.

In production nothing happens there. A test hands in something that ends the process (or pretends to) at a chosen place,
and then looks at what recovery makes of it. `holdfast doctor --crash-points` lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


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
"""Told of every point that is reached, with the name of the tool."""


def nothing(_point: Point, _tool: str) -> None:
    """What production does there."""
