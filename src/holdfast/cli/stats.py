"""`holdfast stats`: how many jobs there are, by status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from holdfast.cli import live, screens
from holdfast.cli.opened import client_at
from holdfast.cli.options import json_option, store_option
from holdfast.cli.talk import to_json, wait_for
from holdfast.client.records import Stats
from holdfast.model.states import Status

if TYPE_CHECKING:
    from rich.table import Table


@click.command()
@click.option("--watch", is_flag=True, help="Look again every second, until Ctrl-C.")
@store_option
@json_option
def stats(where: str, *, watch: bool, as_json: bool) -> None:
    """Count jobs by status, in all and by namespace.

    Example: holdfast stats --watch
    """
    if watch:
        live.follow(where, lambda client: client.stats(), _drawn, as_json=as_json)
        return

    async def look() -> Stats:
        async with client_at(where) as client:
            return await client.stats()

    found = wait_for(look())
    if as_json:
        click.echo(to_json(msgspec.to_builtins(found)))
    else:
        screens.console().print(_drawn(found))


def _drawn(found: Stats) -> Table:
    from rich.table import Table

    grid = Table(box=None, header_style="bold", pad_edge=False)
    grid.add_column("namespace")
    for name in ("jobs", *Status):
        grid.add_column(str(name), justify="right")
    for project, counts in found.by_project.items():
        grid.add_row(
            screens.text(project),
            *(
                screens.text(counts.get(str(name), 0), screens.STYLES.get(str(name), ""))
                for name in ("jobs", *Status)
            ),
        )
    return grid
