"""Rendering of jobs on a terminal: states in words, local times, JSON on one line."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.output import one_line, to_json
from holdfast.model.states import FOR_A_PERSON
from holdfast.model.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

STYLES: Final = {
    "pending": "cyan",
    "running": "blue",
    "waiting": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
}


def console() -> Console:
    """The terminal, or a file of 80 columns; COLUMNS overrides it."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)


def text(value: object, style: str = "") -> Text:
    """Foreign text on one line, unchanged: no markup, no control sequences."""
    from rich.text import Text

    return Text(one_line(str(value)), style)


def join_parts(*parts: Text | str, gap: str = "  ") -> Text:
    """Parts of one line with a gap between them."""
    from rich.text import Text

    return Text(gap).join([part if isinstance(part, Text) else text(part) for part in parts])


def indent(part: Text, by: int = 2) -> Text:
    from rich.text import Text

    return Text(" " * by).append_text(part)


def outline(line: str, style: str = "", by: int = 0) -> Text:
    """Foreign text on one line, with its own indentation."""
    bare = line.lstrip()
    return indent(text(bare, style), by + len(line) - len(bare))


def state(status: str, reason: str | None) -> Text:
    """A status and its wait reason; red if a person has to act."""
    if reason is None:
        return text(status, STYLES.get(status, ""))
    return text(f"{status}: {reason.replace('_', ' ')}", "bold red" if reason in FOR_A_PERSON else "yellow")


def instant(us: int) -> str:
    """An instant in the local time zone."""
    return _local(us).strftime("%Y-%m-%d %H:%M:%S")


def clock(us: int) -> str:
    """The time of day, to the millisecond."""
    return _local(us).strftime("%H:%M:%S.%f")[:-3]


def _local(us: int) -> datetime:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).astimezone()


def span(us: int) -> str:
    """A duration in about six characters: `340ms`, `4.2s`, `3m20s`, `5h12m`, `3d4h`."""
    us = max(us, 0)
    if us < MILLISECOND:
        return "0ms" if us == 0 else f"{us}µs"
    if us < SECOND:
        return f"{us // MILLISECOND}ms"
    if us < 10 * SECOND:
        return f"{us / SECOND:.1f}s"
    if us < MINUTE:
        return f"{us // SECOND}s"
    for unit, small, names in ((DAY, HOUR, "dh"), (HOUR, MINUTE, "hm"), (MINUTE, SECOND, "ms")):
        if us >= unit:
            rest = us % unit // small
            return f"{us // unit}{names[0]}" + (f"{rest}{names[1]}" if rest else "")
    raise AssertionError(us)


def short(value: Any, width: int) -> str:
    """A value as JSON in at most so many characters."""
    line = to_json(value)
    return line if len(line) <= width else line[: max(width - 1, 1)] + "…"
