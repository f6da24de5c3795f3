"""`holdfast workers`: who is there, what they do, and the word that one shall drain."""

from __future__ import annotations

import click
from click.core import ParameterSource

from holdfast.api.job_records import WorkerView
from holdfast.cli import render
from holdfast.cli.open_store import client_at
from holdfast.cli.options import by_option, json_option, operation_option, store_option
from holdfast.cli.output import plain, show, table, to_json, wait_for
from holdfast.client.client import Client
from holdfast.errors import NotFound
from holdfast.model.limits import ROWS_PER_PAGE_MAX
from holdfast.model.page import Page


@click.group(invoke_without_command=True)
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many.")
@click.option("--cursor", help="Go on where the last page ended.")
@store_option
@json_option
@click.pass_context
def workers(ctx: click.Context, where: str, *, limit: int, cursor: str | None, as_json: bool) -> None:
    """List workers: what they can do, what they hold, and when they were last heard.

    Example: holdfast workers --json
    """
    if ctx.invoked_subcommand is not None:
        typed = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if typed:
            raise click.UsageError(f"options of {ctx.invoked_subcommand!r} are said behind it")
        return

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
                _state(one),
                f"{one.holds}/{one.concurrency}",
                ", ".join(one.queues),
                ", ".join(one.kinds),
                render.instant(one.seen_at),
            )
            for one in page
        ]
        table(("worker", "state", "holds", "queues", "kinds", "seen"), rows, as_json=False)
    else:
        click.echo("no workers; holdfast worker app.py starts one", err=True)
    if page.next is not None:
        click.echo(f"more: --cursor {plain(page.next)}", err=True)


def _state(one: WorkerView) -> str:
    asked = one.drain_asked_at is not None and not one.draining
    return f"{one.state}, asked to drain" if asked else str(one.state)


@workers.command()
@click.argument("worker", metavar="WORKER")
@click.option("--why", required=True, help="Why it shall end; for the audit log.")
@by_option
@operation_option
@store_option
@json_option
def drain(worker: str, where: str, *, why: str, by: str, operation_id: str | None, as_json: bool) -> None:
    """Make a worker end, wherever it runs: it claims nothing more and gives its jobs back between two calls.

    WORKER is its name as `holdfast workers` shows it, or as journals have it. It hears of it with its next heartbeat,
    within fifteen seconds. What keeps it running, such as `holdfast up`, starts another in its place.

    Example: holdfast workers drain shop-1:4711 --why 'the machine is needed'
    """

    async def speak() -> WorkerView:
        async with client_at(where) as client:
            name = await _named(client, worker)
            return await client.drain_worker(name, why=why, by=by, operation_id=operation_id)

    told = wait_for(speak())
    if as_json:
        click.echo(to_json(told))
    else:
        click.echo(f"{plain(told.label)} drains as soon as it hears of it; holdfast workers", err=True)


async def _named(client: Client, said: str) -> str:
    """The name in journals of the one worker that is called so."""
    found: list[WorkerView] = []
    cursor: str | None = None
    while True:
        page = await client.list_workers(limit=ROWS_PER_PAGE_MAX, cursor=cursor)
        found += [one for one in page if said in {one.worker, one.label}]
        cursor = page.next
        if cursor is None:
            break
    exact = [one.worker for one in found if one.worker == said]
    names = exact or [one.worker for one in found]
    if len(names) == 1:
        return names[0]
    msg = f"{len(names)} workers are called {said!r}" if names else f"there is no worker {said!r}"
    raise NotFound(msg, hint="`holdfast workers --json` shows their names in journals.")
