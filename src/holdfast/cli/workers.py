"""`holdfast workers`: who is there, and what they do."""

from __future__ import annotations

import click

from holdfast.cli import screens
from holdfast.cli.opened import client_at
from holdfast.cli.options import json_option, store_option
from holdfast.cli.talk import plain, show, table, wait_for
from holdfast.client.records import WorkerView
from holdfast.model.page import Page


@click.command()
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many.")
@click.option("--cursor", help="Go on where the last page ended.")
@store_option
@json_option
def workers(where: str, *, limit: int, cursor: str | None, as_json: bool) -> None:
    """List workers: what they can do, what they hold, and when they were last heard.

    Example: holdfast workers --json
    """

    async def look() -> Page[WorkerView]:
        async with client_at(where) as client:
            return await client.list_workers(limit=limit, cursor=cursor)

    page = wait_for(look())
    if as_json:
        for one in page:
            show(one, as_json=True)
    elif page.items:
        rows = [
            (
                one.label,
                one.state,
                f"{one.holds}/{one.concurrency}",
                ", ".join(one.queues),
                ", ".join(one.kinds),
                screens.instant(one.seen_at),
            )
            for one in page
        ]
        table(("worker", "state", "holds", "queues", "kinds", "seen"), rows, as_json=False)
    else:
        click.echo("no workers; holdfast worker app.py starts one", err=True)
    if page.next is not None:
        click.echo(f"more: --cursor {plain(page.next)}", err=True)
