"""Live view: refreshed on a terminal, one line per refresh in a pipe. And a progress indicator."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import click

from holdfast.cli import render
from holdfast.cli.open_store import client_at
from holdfast.cli.output import to_json, wait_for
from holdfast.client.client import Client

if TYPE_CHECKING:
    from rich.console import RenderableType

T = TypeVar("T")

EVERY_S: Final = 1.0


def follow(
    where: str,
    look: Callable[[Client], Awaitable[T]],
    drawn: Callable[[T], RenderableType],
    *,
    as_json: bool,
    every_s: float = EVERY_S,
) -> None:
    """Shows what `look` returns, every `every_s` seconds, until Ctrl-C."""
    try:
        wait_for(_follow(where, look, drawn, as_json=as_json, every_s=every_s))
    except KeyboardInterrupt:
        return


async def _follow(
    where: str,
    look: Callable[[Client], Awaitable[T]],
    drawn: Callable[[T], RenderableType],
    *,
    as_json: bool,
    every_s: float,
) -> None:
    from rich.live import Live

    console = render.console()
    async with client_at(where) as client:
        if as_json or not console.is_terminal:
            while True:
                value = await look(client)
                if as_json:
                    click.echo(to_json(value))
                else:
                    console.print(drawn(value))
                sys.stdout.flush()
                await asyncio.sleep(every_s)
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                live.update(drawn(await look(client)), refresh=True)
                await asyncio.sleep(every_s)


@contextmanager
def sign_of_life(label: str) -> Iterator[None]:
    """Progress indicator with the elapsed time, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(label, total=None)
        yield
