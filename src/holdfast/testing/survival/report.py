"""Report of a survival test: a table of crash points, and the faults by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

SHOWN: Final = 6
"""Crash points that are listed under one fault; the rest is counted."""


class CrashPointRow(msgspec.Struct, frozen=True):
    """A crash point, the step in progress there, and the outcome."""

    point: str
    step: str
    outcome: str
    survived: bool = True


class Fault(msgspec.Struct, frozen=True):
    """What went wrong, and what to do about it."""

    what: str
    hint: str = ""


class Survival(msgspec.Struct, frozen=True):
    """The result for all crash points. `str()` is the table: point · step · outcome."""

    agent: str
    points: tuple[CrashPointRow, ...]

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
            [
                head,
                "",
                *_format_table([("point", "step", "what came of it"), *map(_format_cells, self.points)]),
            ]
        )


class DidNotSurvive(AssertionError):
    """The agent did not survive: names the faults, and the crash points of each. `survival` is the whole table."""

    def __init__(self, message: str, survival: Survival, faults: tuple[Fault, ...]) -> None:
        super().__init__(message)
        self.survival = survival
        self.faults = faults


def make_failure(survival: Survival, found: Sequence[tuple[CrashPointRow, Fault]]) -> DidNotSurvive:
    """The error for these faults, each once with its crash points."""
    where: dict[Fault, list[CrashPointRow]] = {}
    for row, fault in found:
        where.setdefault(fault, []).append(row)
    lines = [str(survival).partition("\n")[0]]
    for fault, rows in where.items():
        lines += ["", fault.what, *(f"  killed at {_format_place(row)}" for row in rows[:SHOWN])]
        if len(rows) > SHOWN:
            lines.append(f"  and at {len(rows) - SHOWN} more")
        lines += [f"  → {fault.hint}"] if fault.hint else []
    return DidNotSurvive("\n".join(lines), survival, tuple(where))


def make_unkilled_error(agent: str, problem: str, faults: Sequence[Fault]) -> DidNotSurvive:
    """The error for an agent that already fails without a kill."""
    lines = [f"undisturbed, {agent} {problem}"]
    for fault in faults:
        lines += ["", fault.what] + ([f"  → {fault.hint}"] if fault.hint else [])
    return DidNotSurvive("\n".join(lines), Survival(agent, ()), tuple(faults))


def _format_place(row: CrashPointRow) -> str:
    return f"{row.point} · {row.step}" if row.step else row.point


def _format_cells(row: CrashPointRow) -> tuple[str, str, str]:
    return row.point, row.step, row.outcome if row.survived else f"FAILED: {row.outcome}"


def _format_table(rows: Sequence[tuple[str, str, str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for point, step, outcome in rows:
        yield f"{point:<{widths[0]}} · {step:<{widths[1]}} · {outcome}"
