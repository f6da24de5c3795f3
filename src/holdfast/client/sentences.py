"""Small parts of the sentences that a trace is told in."""

from __future__ import annotations

from typing import Any

from holdfast.model import budget as money
from holdfast.model import events as e


def because(why: str) -> str:
    return f": {why}" if why else ""


def raised(event: e.BudgetRaised) -> str:
    limits = event.limits if isinstance(event.limits, dict) else {}
    return ", ".join(named(name, most) for name, most in limits.items()) + because(event.why)


def named(limit: str, most: Any) -> str:
    return f"{amount(limit, most)} {money.WORDS.get(limit, limit)}"


def amount(limit: str, much: Any) -> str:
    return money.show(limit, much) if type(much) is int and much >= 0 else str(much)


def told(error: Any) -> str:
    if not isinstance(error, dict):
        return "" if error is None else str(error)
    return f"{error.get('type', 'Error')}: {error.get('message', '')}"
