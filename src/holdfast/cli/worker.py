"""`holdfast worker`: a process that drives jobs until it is told to stop. `holdfast workers`: who does now."""

from __future__ import annotations

import asyncio
import signal

import click

from holdfast.cli import screens
from holdfast.cli.opened import client_at
from holdfast.cli.options import json_option, store_option
from holdfast.cli.talk import plain, show, table, wait_for
from holdfast.client.records import WorkerView
from holdfast.model.ids import check_name
from holdfast.model.page import Page
from holdfast.model.presence import Offer
from holdfast.runtime.app import App
from holdfast.runtime.loading import load
from holdfast.runtime.process import Process, opened


@click.command()
@click.argument("app_at", metavar="APP")
@click.option(
    "--concurrency",
    default=16,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many jobs it drives at a time.",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    help="Take jobs of this queue only; as often as needed. Without it: all that the application names.",
)
@click.option(
    "--capability", "capabilities", multiple=True, metavar="NAME", help="Something that this worker can do."
)
@click.option("--name", help="Its name in journals; must be its own.")
@store_option
def worker(
    app_at: str,
    concurrency: int,
    queues: tuple[str, ...],
    capabilities: tuple[str, ...],
    name: str | None,
    where: str,
) -> None:
    """Drive the jobs of an application: app.py, a module, or either with :NAME.

    SIGTERM or Ctrl-C: it claims nothing more, lets the calls that run come to their end for a while, and gives its jobs
    back between two calls. Twice: it gives everything back at once.

    Example: holdfast worker app.py --queue mail --queue default --concurrency 32
    """
    for queue in queues:
        check_name(queue, "queue")
    app = load(app_at)
    offer = app.offer(
        queues=tuple(dict.fromkeys(queues)),
        capabilities=tuple(dict.fromkeys(capabilities)),
        concurrency=concurrency,
    )
    wait_for(_work(app, offer, name, where))


async def _work(app: App, offer: Offer, name: str | None, where: str) -> None:
    process = await opened(
        app.programs(), where, offer=offer, name=name, schedules=tuple(app.schedules.values())
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop, process)
    kinds = (
        ", ".join(sorted({*app.agents, *app.sessions})) or "configured agents; it declares none of its own"
    )
    click.echo(f"working on {kinds}; stop with Ctrl-C", err=True)
    await process.done()
    await process.close()


def _stop(process: Process) -> None:
    process.drain()
    click.echo("stopping: what runs is finished or given back; once more to give it back at once", err=True)


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
