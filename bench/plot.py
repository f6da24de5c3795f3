"""A picture of each table, and of each curve: SVG written by hand, readable on light and on dark."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench.report import Curve, Row, format_number

WIDTH = 820
LINE = 26
LABEL = 330
MARGIN = 16

STYLE = """
svg { font: 13px system-ui, sans-serif; background: #fff; }
text { fill: #222; } .faint { fill: #667; } .axis { stroke: #99a; stroke-width: 1; }
.ours { fill: #1f6feb; stroke: #1f6feb; } .raw { fill: #8a8f98; stroke: #8a8f98; }
.peer { fill: #c2702a; stroke: #c2702a; }
.spread { stroke: #222; stroke-width: 1; } .curve { fill: none; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  svg { background: #12161c; } text { fill: #e6e9ee; } .faint { fill: #9aa4b2; } .axis { stroke: #556; }
  .spread { stroke: #e6e9ee; }
}
"""


def kind_of(contestant: str) -> str:
    """Whose it is: ours, nobody's, or a peer's. It is the colour."""
    if contestant.startswith("holdfast"):
        return "ours"
    return "raw" if contestant.startswith("raw") else "peer"


def bars(title: str, rows: Sequence[Row]) -> str:
    """A bar for each contestant on a logarithmic scale, with the lowest and the highest round on it."""
    lowest = min(row.low for row in rows) or 1e-9
    highest = max(row.high for row in rows) or 1e-9
    first, last = math.floor(math.log10(lowest)), math.ceil(math.log10(highest))
    last += last == first
    room = WIDTH - LABEL - 2 * MARGIN - 60

    def x(value: float) -> float:
        return LABEL + (math.log10(max(value, 10.0**first)) - first) / (last - first) * room

    bottom = 48 + LINE * len(rows)
    parts = []
    for power in range(first, last + 1):
        at = x(10.0**power)
        parts.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="40" y2="{bottom}" opacity="0.4"/>')
        parts.append(
            f'<text class="faint" x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{10.0**power:g}</text>'
        )
    for nth, row in enumerate(rows):
        y = 48 + LINE * nth
        end, whose = x(row.value), kind_of(row.contestant)
        shown = row.contestant if len(row.contestant) < 48 else row.contestant[:46] + "…"
        parts += [
            f'<text x="{LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(shown)}</text>',
            f'<rect class="{whose}" x="{LABEL}" y="{y + 2}" width="{max(1.0, end - LABEL):.1f}" height="16"/>',
            f'<line class="spread" x1="{x(row.low):.1f}" x2="{x(row.high):.1f}" y1="{y + 10}" y2="{y + 10}"/>',
            f'<text x="{max(end, x(row.high)) + 6:.1f}" y="{y + 14}">{format_number(row.value)}</text>',
        ]
    unit = f"{rows[0].measure}, {rows[0].unit}, logarithmic; shorter is better"
    return _svg(
        title, unit if rows[0].unit != "a second" else unit.replace("shorter", "longer"), bottom + 40, parts
    )


def curve(found: Curve) -> str:
    """Cost against size, both on logarithmic scales: flat is level, linear is the diagonal."""
    xs = [math.log10(size) for size, _ in found.points]
    ys = [math.log10(max(cost, 1e-9)) for _, cost in found.points]
    left, right, top, bottom = 90, WIDTH - 60, 60, 320
    low, high = math.floor(min(ys)), math.ceil(max(ys))
    high += high == low
    at = [
        (
            left + (x - xs[0]) / ((xs[-1] - xs[0]) or 1) * (right - left),
            bottom - (y - low) / (high - low) * (bottom - top),
        )
        for x, y in zip(xs, ys, strict=True)
    ]
    parts = [f'<line class="axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>']
    for power in range(low, high + 1):
        y = bottom - (power - low) / (high - low) * (bottom - top)
        parts.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" opacity="0.4"/>')
        parts.append(
            f'<text class="faint" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
        )
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    parts.append(f'<polyline class="curve {kind_of(found.contestant)}" style="fill:none" points="{path}"/>')
    for (x, y), (size, cost) in zip(at, found.points, strict=True):
        parts += [
            f'<circle class="{kind_of(found.contestant)}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>',
            f'<text x="{x:.1f}" y="{y - 10:.1f}" text-anchor="middle">{format_number(cost)}</text>',
            f'<text class="faint" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{size:,}</text>',
        ]
    said = f"{found.unit} against {found.of}, both logarithmic; exponent {found.exponent():.2f}"
    return _svg(f"{found.name} · {found.store}", said, 360, parts)


def _svg(title: str, said: str, height: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
    )
    texts = (
        f"<style>{STYLE}</style>"
        f'<text x="{MARGIN}" y="20" font-weight="bold">{escape(title)}</text>'
        f'<text class="faint" x="{MARGIN}" y="36">{escape(said)}</text>'
    )
    return f"{head}{texts}{''.join(parts)}</svg>\n"


def draw(rows: Sequence[Row], curves: Sequence[Curve], folder: Path) -> list[Path]:
    """A file for each table and each curve is in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        f"{row.suite} {row.contest} · {row.store}": bars(f"{row.suite} {row.contest} · {row.store}", its)
        for (row, *_), its in (
            (group, group)
            for _, more in itertools.groupby(rows, lambda row: (row.suite, row.contest, row.store))
            for group in [list(more)]
        )
    }
    pictures |= {f"growth {one.name} · {one.store}": curve(one) for one in curves}
    written = []
    for title, picture in pictures.items():
        path = folder / f"bench-{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}.svg"
        path.write_text(picture, encoding="utf-8")
        written.append(path)
    return written
