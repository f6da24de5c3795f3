"""What a run says: rows for people, goals for a gate, both in one file."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from bench.contest import Figure, Lap, Result, cpu, rate


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant in one contest. `ratio` compares it with the contestant named in `against`."""

    suite: str
    contest: str
    store: str
    contestant: str
    measure: str
    unit: str
    value: float
    low: float
    high: float
    cpu_ms: float | None = None
    per_second: float | None = None
    ratio: float | None = None
    against: str | None = None


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """A promise and how it stands. The unit says which side of the goal is the good one."""

    name: str
    value: float
    goal: float
    unit: str
    met: bool


def goal(
    name: str, found: float | Figure, side: Literal["at most", "at least"], limit: float, unit: str
) -> Goal:
    value = found.value if isinstance(found, Figure) else found
    met = value <= limit if side == "at most" else value >= limit
    return Goal(name=name, value=round(value, 3), goal=limit, unit=f"{unit}, {side}", met=met)


class Contest(msgspec.Struct, frozen=True):
    """Which table a row belongs to."""

    suite: str
    name: str
    store: str

    def row(self, result: Result, measure: str, of: Callable[[Lap], float], raw: Result | None = None) -> Row:
        """A contestant's time, in milliseconds; compared with the raw one by `of`, unless it is that one."""
        found = result.each(of)
        compared = raw if raw is not result else None
        return Row(
            suite=self.suite,
            contest=self.name,
            store=self.store,
            contestant=result.contestant,
            measure=measure,
            unit="ms",
            value=found.value * 1000,
            low=found.low * 1000,
            high=found.high * 1000,
            cpu_ms=result.each(cpu).value * 1000,
            per_second=result.each(rate).value * result.rows_per_operation,
            ratio=None if compared is None else result.against(compared, of).value,
            against=None if compared is None else compared.contestant,
        )

    def weight(self, contestant: str, ratio: float) -> Row:
        return Row(
            suite=self.suite,
            contest=self.name,
            store=self.store,
            contestant=contestant,
            measure="bytes",
            unit="× the text",
            value=ratio,
            low=ratio,
            high=ratio,
        )


class Findings(msgspec.Struct):
    """What suites add to as they go."""

    rows: list[Row]
    goals: list[Goal]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of `build/bench.json`."""

    goals: list[Goal]
    rows: list[Row]
    machine: dict[str, Any]

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")


# ── for people ────────────────────────────────────────────────────────────────────────────────────


def show_rows(console: Console, rows: list[Row]) -> None:
    """One table for each contest on each store; rows of one contest lie together."""
    for title, group in itertools.groupby(rows, lambda row: f"{row.suite} {row.contest} · {row.store}"):
        its = list(group)
        timed = its[0].cpu_ms is not None
        table = _table(f"{title}: {its[0].measure}")
        table.add_column("contestant")
        for heading in (its[0].unit, *(("low..high", "CPU ms", "rows/s", "× raw") if timed else ())):
            table.add_column(heading, justify="right", no_wrap=True)
        for row in its:
            spread = f"{number(row.low)}..{number(row.high)}"
            rest = (spread, number(row.cpu_ms), number(row.per_second), number(row.ratio)) if timed else ()
            table.add_row(row.contestant, number(row.value), *rest)
        console.print(table)


def show_goals(console: Console, goals: list[Goal]) -> None:
    table = _table("goals")
    table.add_column("goal")
    for heading in ("value", "goal"):
        table.add_column(heading, justify="right")
    table.add_column("unit")
    table.add_column("", no_wrap=True)
    for each in goals:
        said = "[green]met[/green]" if each.met else "[bold red]NOT MET[/bold red]"
        table.add_row(each.name, number(each.value), f"{each.goal:g}", each.unit, said)
    console.print(table)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)


def number(value: float | None) -> str:
    """Three figures, whatever the size; nothing for None."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value else "0"
