"""Output of the command line: errors, tables, JSON."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

import click
import msgspec

from holdfast.errors import HoldfastError
from holdfast.model.redaction import redact

T = TypeVar("T")

_CONTROL: Final = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # a title, a link: up to its end
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"  # colours, cursor, modes
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # changes the reading direction
    r"|[\u200b\u2028\u2029\u2060-\u2064\ufeff\U000e0000-\U000e007f]"  # invisible characters
    r"|[\ud800-\udfff]"
)
_ESCAPED: Final = re.compile(
    r"[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)
"""Control characters and invisible ones: a person who reads arguments must see all of them."""


def complain(error: HoldfastError) -> None:
    """Prints what happened, what to do now, and the code to search the documentation for."""
    click.secho(f"error: {plain(redact(str(error)))}", fg="red", err=True)
    click.echo(f"  {plain(redact(error.hint))}  [{error.code}]", err=True)


def plain(text: str) -> str:
    """Foreign text without control sequences: text of a model or a file must not control the terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str) -> str:
    """Foreign text on one line: without control sequences and line breaks."""
    return " ".join(plain(text).split())


def to_json(value: Any) -> str:
    """A value as one line of JSON that is safe to print: control characters are escaped."""
    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
    return _ESCAPED.sub(lambda found: json.dumps(found[0])[1:-1], text)


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Runs an asynchronous command body; returns its result."""
    return asyncio.run(work)


def show(record: msgspec.Struct | dict[str, Any], *, as_json: bool, title: str = "") -> None:
    """Prints one record: a line of JSON, or names and values."""
    values = record if isinstance(record, dict) else msgspec.to_builtins(record)
    if as_json:
        click.echo(to_json(values))
        return
    if title:
        click.secho(title, bold=True)
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        click.echo(f"  {name.replace('_', ' '):<{width}}  {plain(str(value))}")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, as_json: bool) -> None:
    """Prints many records: JSON lines, or a table as wide as it needs to be."""
    if as_json:
        for row in rows:
            click.echo(to_json(dict(zip(columns, row, strict=True))))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        # As text, not as markup: a bracket in an error message stays a bracket.
        grid.add_row(*(Text(plain(str(value))) for value in row))
    Console(file=sys.stdout).print(grid)
