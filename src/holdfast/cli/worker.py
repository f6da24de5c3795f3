"""`holdfast worker`: a process that drives jobs until it is told to stop."""

from __future__ import annotations

import asyncio
import signal

import click

from holdfast.cli.options import store_option
from holdfast.cli.talk import wait_for
from holdfast.runtime import lifeline
from holdfast.runtime.app import App
from holdfast.runtime.loading import load
from holdfast.runtime.process import Process, opened


@click.command()
@click.argument("app_at", metavar="[APP]", required=False)
@click.option("--concurrency", default=16, show_default=True, help="How many jobs it drives at a time.")
@click.option("--name", help="Its name in journals; must be its own.")
@store_option
def worker(app_at: str | None, concurrency: int, name: str | None, where: str) -> None:
    """Drive the jobs of an application: app.py, or a module. Without one it takes the turns of configured agents.

    SIGTERM or Ctrl-C: it claims nothing more, lets the calls that run come to their end for a while, and gives its jobs
    back between two calls. Twice: it gives everything back at once.

    Example: holdfast worker app.py --store sqlite:///holdfast.db
    """
    wait_for(_work(app_at, concurrency, name, where))


async def _work(app_at: str | None, concurrency: int, name: str | None, where: str) -> None:
    app = App(where) if app_at is None else load(app_at)
    process = await opened(
        app.programs(), where, concurrency=concurrency, name=name, schedules=tuple(app.schedules.values())
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop, process)
    kinds = (
        ", ".join(sorted({*app.agents, *app.sessions})) or "configured agents; it declares none of its own"
    )
    if not lifeline.ready(kinds):
        click.echo(f"working on {kinds}; stop with Ctrl-C", err=True)
    await process.done()
    await process.close()


def _stop(process: Process) -> None:
    process.drain()
    click.echo("stopping: what runs is finished or given back; once more to give it back at once", err=True)
