"""What came of killing an agent everywhere: a table for those who survived, and the faults by name for those who did
not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

SHOWN: Final = 6
"""Points that are listed under one fault; the rest is counted."""


class Row(msgspec.Struct, frozen=True):
    """A crash point, what was going on there, and what came of it."""

    point: str
    step: str
    outcome: str
    survived: bool = True


class Fault(msgspec.Struct, frozen=True):
    """What went wrong, and what to do about it."""

    what: str
    hint: str = ""


class Survival(msgspec.Struct, frozen=True):
    """`str()` is the table: point · step · what came of it."""

    agent: str
    points: tuple[Row, ...]

    @property
    def survived(self) -> bool:
        return all(row.survived for row in self.points)

    def __str__(self) -> str:
        if not self.points:
            return f"{self.agent} came out the same twice; nobody killed it"
        lost = sum(not row.survived for row in self.points)
        verb = f"did not survive {lost} of" if lost else "survived all"
        head = f"{self.agent} {verb} {len(self.points)} crash points"
        return "\n".join(
            [head, "", *_table([("point", "step", "what came of it"), *map(_cells, self.points)])]
        )


class DidNotSurvive(AssertionError):
    """Names the faults, and the points at which each came out. `survival` is the whole table."""

    def __init__(self, message: str, survival: Survival, faults: tuple[Fault, ...]) -> None:
        super().__init__(message)
        self.survival = survival
        self.faults = faults


def failure(survival: Survival, found: Sequence[tuple[Row, Fault]]) -> DidNotSurvive:
    """The error that tells this, each fault once with the points where it came out."""
    where: dict[Fault, list[Row]] = {}
    for row, fault in found:
        where.setdefault(fault, []).append(row)
    lines = [str(survival).partition("\n")[0]]
    for fault, rows in where.items():
        lines += ["", fault.what, *(f"  killed at {_place(row)}" for row in rows[:SHOWN])]
        if len(rows) > SHOWN:
            lines.append(f"  and at {len(rows) - SHOWN} more")
        lines += [f"  → {fault.hint}"] if fault.hint else []
    return DidNotSurvive("\n".join(lines), survival, tuple(where))


def make_unkilled_error(agent: str, what: str, faults: Sequence[Fault]) -> DidNotSurvive:
    """The error for an agent that does not even come out right when nobody kills it."""
    lines = [f"undisturbed, {agent} {what}"]
    for fault in faults:
        lines += ["", fault.what] + ([f"  → {fault.hint}"] if fault.hint else [])
    return DidNotSurvive("\n".join(lines), Survival(agent, ()), tuple(faults))


def _place(row: Row) -> str:
    return f"{row.point} · {row.step}" if row.step else row.point


def _cells(row: Row) -> tuple[str, str, str]:
    return row.point, row.step, row.outcome if row.survived else f"FAILED: {row.outcome}"


def _table(rows: Sequence[tuple[str, str, str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for point, step, outcome in rows:
        yield f"{point:<{widths[0]}} · {step:<{widths[1]}} · {outcome}"
