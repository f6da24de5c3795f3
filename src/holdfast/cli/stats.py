"""`holdfast stats`: counts of jobs by status, and of agents and work items by project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click
import msgspec

from holdfast.api.job_records import Stats
from holdfast.cli import live_view, render
from holdfast.cli.open_store import client_at
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import to_json, wait_for
from holdfast.model.states import Status

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

WORDS: Final = {
    "agents": "agents",
    "pendingWork": "pending",
    "activeWork": "active",
    "completedWork": "completed",
    "failedWork": "failed",
    "cancelledWork": "cancelled",
    "deadWork": "dead",
}


@click.command()
@click.option("--watch", is_flag=True, help="Refresh every second, until Ctrl-C.")
@store_option
@json_option
def stats(where: str, *, watch: bool, as_json: bool) -> None:
    """Count jobs by status, and agents and work items by project.

    Example: holdfast stats --watch
    """
    if watch:
        live_view.follow(where, lambda client: client.stats(), _drawn, as_json=as_json)
        return

    async def look() -> Stats:
        async with client_at(where) as client:
            return await client.stats()

    counts = wait_for(look())
    if as_json:
        click.echo(to_json(msgspec.to_builtins(counts)))
    else:
        render.console().print(_drawn(counts))


def _drawn(stats: Stats) -> Group:
    """All jobs by status; and below, if there are any, agents and work by project."""
    from rich.console import Group

    jobs = _counted("", ("jobs", *map(str, Status)), {"all": stats.totals})
    if not stats.by_project:
        return Group(jobs)
    return Group(jobs, "", _counted("project", tuple(WORDS), stats.by_project | {"all": stats.totals}))


def _counted(first: str, names: Sequence[str], rows: Mapping[str, Mapping[str, int]]) -> Table:
    from rich.table import Table

    grid = Table(box=None, header_style="bold", pad_edge=False)
    grid.add_column(first)
    for name in names:
        grid.add_column(WORDS.get(name, name), justify="right")
    for row, counts in rows.items():
        numbers = (render.text(counts.get(name, 0), render.STYLES.get(name, "")) for name in names)
        grid.add_row(render.text(row), *numbers)
    return grid
