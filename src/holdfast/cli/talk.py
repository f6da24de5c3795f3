"""How the command line speaks: errors, tables, JSON."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

import click
import msgspec

from holdfast.cli.exits import exit_status
from holdfast.errors import HoldfastError

T = TypeVar("T")

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|\x1b\][^\x07]*\x07?")


def run(command: click.Command) -> int:
    """The exit status of the command, everything that can go wrong explained on stderr."""
    try:
        status = command.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        click.echo(help_wanted.ctx.get_help(), err=True)
        return 2
    except click.ClickException as usage:
        usage.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except HoldfastError as error:
        complain(error)
        return exit_status(error)
    # Click hands the status of an explicit exit back as a value when it does not exit itself.
    return status if isinstance(status, int) else 0


def complain(error: HoldfastError) -> None:
    """What happened, what to do now, and the code to search the documentation for."""
    click.secho(f"error: {plain(str(error))}", fg="red", err=True)
    click.echo(f"  {plain(error.hint)}  [{error.code}]", err=True)


def plain(text: str) -> str:
    """Foreign text without control sequences: what a model or a file wrote must not drive the terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """The result of an asynchronous command body."""
    return asyncio.run(work)


def show(record: msgspec.Struct | dict[str, Any], *, as_json: bool, title: str = "") -> None:
    """One record: a line of JSON, or names and values."""
    values = record if isinstance(record, dict) else msgspec.to_builtins(record)
    if as_json:
        click.echo(msgspec.json.encode(values).decode())
        return
    if title:
        click.secho(title, bold=True)
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        click.echo(f"  {name.replace('_', ' '):<{width}}  {plain(str(value))}")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, as_json: bool) -> None:
    """Many records: JSON lines, or a table as wide as it needs to be."""
    if as_json:
        for row in rows:
            click.echo(msgspec.json.encode(dict(zip(columns, row, strict=True))).decode())
        return
    from rich.console import Console
    from rich.table import Table

    grid = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        grid.add_row(*(plain(str(value)) for value in row))
    Console(file=sys.stdout).print(grid)
