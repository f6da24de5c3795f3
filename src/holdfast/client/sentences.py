"""Small parts of the sentences that a trace is told in."""

from __future__ import annotations

from typing import Any, Final

from holdfast.model import budget as money
from holdfast.model import events as e
from holdfast.model.side_effects import Effect
from holdfast.model.stall_report import arrange_report

DECISIONS: Final = {
    "happened": "it had happened",
    "not_happened": "it had not happened",
    "skip": "it is to be skipped",
    "fail": "it is to count as failed",
    "relaunch": "it is to be launched again",
}


def because(why: str) -> str:
    return f": {why}" if why else ""


def raised(event: e.BudgetRaised) -> str:
    limits = event.limits if isinstance(event.limits, dict) else {}
    return ", ".join(named(name, most) for name, most in limits.items()) + because(event.why)


def named(limit: str, most: Any) -> str:
    return f"{amount(limit, most)} {money.WORDS.get(limit, limit)}"


def amount(limit: str, much: Any) -> str:
    return money.show(limit, much) if type(much) is int and much >= 0 else str(much)


def tell_stall(event: e.JobStalled) -> list[str]:
    """Where each task of a stalled job stood, one line for each."""
    return [
        f"{task['task'] or 'A task'} stood at {task['at']}."
        for task in arrange_report(event.report)["tasks"]
        if task["at"]
    ]


def tell_resend(effect: str, *, same_run: bool) -> str:
    """Why a call has a second intent under one key."""
    if effect == Effect.VERIFIABLE:
        return "was sent again under the same key: its receiver was asked, and had not got it"
    if same_run:
        return "got a new intent: the first had become too old, and nothing had left yet"
    if effect == Effect.IDEMPOTENT:
        return "was sent again under the same key: it is idempotent, and its outcome was not recorded"
    return "was sent again under the same key"


def count_outcomes(number: int) -> str:
    return "1 recorded outcome was" if number == 1 else f"{number} recorded outcomes were"
