"""What a run says: rows for people, goals for a gate, both in one file."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from bench.contest import Figure, Lap, Result, cpu, fastest, middle, rate


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant in one contest. `ratio` compares it with the raw contestant named in `against`, `to_peer` with the
    fastest peer of the contest."""

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
    to_peer: float | None = None
    peer: str | None = None


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """A promise and how it stands. The unit says which side of the goal is the good one."""

    name: str
    value: float
    goal: float
    unit: str
    met: bool


def make_goal(
    name: str, found: float | Figure, side: Literal["at most", "at least"], limit: float, unit: str
) -> Goal:
    value = found.value if isinstance(found, Figure) else found
    met = value <= limit if side == "at most" else value >= limit
    return Goal(name=name, value=round(value, 3), goal=limit, unit=f"{unit}, {side}", met=met)


def make_peer_goal(
    name: str, ours: Result, peers: Sequence[Result], at_least: float, of: Callable[[Lap], float] = middle
) -> Goal:
    """How many times faster we are than the fastest of the peers."""
    first = fastest(peers, of)
    return make_goal(name, first.against(ours, of), "at least", at_least, f"× as fast as {first.contestant}")


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
            cpu_ms=result.each(cpu).value * 1000 if result.laps[0].inside else None,
            per_second=result.each(rate).value * result.rows_per_operation,
            ratio=None if compared is None else result.against(compared, of).value,
            against=None if compared is None else compared.contestant,
        )

    def table(
        self,
        results: Sequence[Result],
        measure: str,
        of: Callable[[Lap], float],
        raw: Result | None,
        peers: Sequence[Result] = (),
    ) -> list[Row]:
        """A row for everybody, compared with the raw one and with the fastest of the peers, if there are any."""
        rows = [self.row(result, measure, of, raw) for result in results]
        if not peers:
            return rows
        first = fastest(peers, of)
        return [
            msgspec.structs.replace(row, to_peer=result.against(first, of).value, peer=first.contestant)
            if result is not first
            else row
            for row, result in zip(rows, results, strict=True)
        ]

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


class Note(msgspec.Struct, frozen=True):
    """Who is not in a table, and why."""

    suite: str
    store: str
    text: str


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """What something costs against how much of it there is."""

    name: str
    store: str
    contestant: str
    of: str
    unit: str
    points: tuple[tuple[int, float], ...]

    def exponent(self) -> float:
        """The slope of the line through the points when both scales are logarithmic: 0 is flat, 1 linear, 2 square."""
        xs = [math.log(size) for size, _ in self.points]
        ys = [math.log(max(cost, 1e-12)) for _, cost in self.points]
        middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
        spread = sum((x - middle_x) ** 2 for x in xs)
        return sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / spread


class Findings(msgspec.Struct):
    """What suites add to as they go."""

    rows: list[Row]
    goals: list[Goal]
    notes: list[Note] = []
    curves: list[Curve] = []

    def beside(self, suite: str, store: str, why: str, absent: Sequence[str]) -> None:
        """The table says who is missing from it."""
        for text in (why, *(f"could not take part: {one}" for one in absent)):
            note = Note(suite, store, text)
            if text and note not in self.notes:
                self.notes.append(note)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of `build/bench.json`."""

    goals: list[Goal]
    rows: list[Row]
    notes: list[Note]
    curves: list[Curve]
    machine: dict[str, Any]

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")


# ── for people ────────────────────────────────────────────────────────────────────────────────────


def show_rows(console: Console, rows: list[Row], notes: Sequence[Note] = ()) -> None:
    """One table for each contest on each store; rows of one contest lie together. Notes come under the last one."""
    for title, group in itertools.groupby(rows, lambda row: f"{row.suite} {row.contest} · {row.store}"):
        its = list(group)
        timed = its[0].per_second is not None
        beside = any(row.peer for row in its)
        table = _make_table(f"{title}: {its[0].measure}")
        table.add_column("contestant")
        headings = ("low..high", "CPU ms", "rows/s", "× raw", *(("× best peer",) if beside else ()))
        for heading in (its[0].unit, *(headings if timed else ())):
            table.add_column(heading, justify="right", no_wrap=True)
        for row in its:
            spread = f"{format_number(row.low)}..{format_number(row.high)}"
            rest = (spread, *map(format_number, (row.cpu_ms, row.per_second, row.ratio, row.to_peer)))
            table.add_row(row.contestant, format_number(row.value), *rest[: len(headings) if timed else 0])
        console.print(table)
    for note in notes:
        console.print(f"  {note.store}: {note.text}", style="dim", highlight=False)


def show_curves(console: Console, curves: Sequence[Curve]) -> None:
    if not curves:
        return
    table = _make_table("growth: cost against size; exponent 0 is flat, 1 is linear")
    for heading in ("cost", "store", "points"):
        table.add_column(heading)
    table.add_column("exponent", justify="right")
    for one in curves:
        points = "  ".join(f"{size:,}: {format_number(cost)}" for size, cost in one.points)
        table.add_row(f"{one.name}, {one.unit} against {one.of}", one.store, points, f"{one.exponent():.2f}")
    console.print(table)


def show_goals(console: Console, goals: list[Goal]) -> None:
    table = _make_table("goals")
    table.add_column("goal")
    for heading in ("value", "goal"):
        table.add_column(heading, justify="right")
    table.add_column("unit")
    table.add_column("", no_wrap=True)
    for each in goals:
        said = "[green]met[/green]" if each.met else "[bold red]NOT MET[/bold red]"
        table.add_row(each.name, format_number(each.value), f"{each.goal:g}", each.unit, said)
    console.print(table)


def _make_table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)


def format_number(value: float | None) -> str:
    """Three figures, whatever the size; nothing for None."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value else "0"
