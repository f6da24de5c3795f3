"""`holdfast up`: runs the API and workers under a supervisor, which restarts them."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
import tempfile

import click

from holdfast.cli.open_store import is_store_named
from holdfast.cli.options import app_store_option
from holdfast.cli.output import wait_for
from holdfast.cli.serve import page_link
from holdfast.client.keys import new_token
from holdfast.errors import InvalidSetting
from holdfast.runtime.supervisor import SupervisedProcess, Supervisor
from holdfast.store import address


@click.command()
@click.argument("app_at", metavar="[APP]", required=False)
@click.option("--port", default=8080, show_default=True, help="Port of the API; 0 takes a free one.")
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Number of worker processes."
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    help="Jobs per worker at the same time.  [default: as the App declares, else 16]",
)
@app_store_option
def up(app_at: str | None, port: int, workers: int, concurrency: int | None, where: str) -> None:
    """Start the API, the page and a worker on this machine.

    APP is the application: app.py, or a module. Without it the worker runs configured agents only. A worker that is
    killed is restarted, and its jobs continue at once; so is the API, whose port stays open. Ctrl-C stops everything;
    unfinished jobs continue at the next start. To serve other machines use `holdfast serve` and `holdfast worker`.

    Example: holdfast up app.py
    """
    if app_at is not None and not is_store_named():
        where = wait_for(_declared_store(app_at))
    if address.parse(where).kind == "memory":
        msg = "a memory store belongs to one process, and `holdfast up` starts several"
        raise InvalidSetting(msg, hint="Use sqlite:///holdfast.db, or leave --store out.")
    sys.exit(wait_for(_up(app_at, port, workers, concurrency, where)))


async def _declared_store(app_at: str) -> str:
    """The store that the application declares, else the default. Another process loads the application: its modules
    may do anything when they are imported, and must not do it in the supervisor."""
    command = (sys.executable, "-m", "holdfast", "worker", app_at, "--print-store")
    child = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await child.communicate()
    if child.returncode != 0:
        sys.exit(child.returncode)  # the child has printed the reason
    return printed.decode().splitlines()[-1]  # the application may print as well


async def _up(app_at: str | None, port: int, workers: int, concurrency: int | None, where: str) -> int:
    from holdfast.server.serving import bind_socket, url_of

    with bind_socket(port=port) as listening, tempfile.TemporaryFile(buffering=0) as token_file:
        # Bound here and inherited: a client that connects while the API is being replaced waits, and is served.
        listening.listen()
        # The token is inherited, too: the printed link stays valid for the next API process.
        token = new_token()
        token_file.write(token.encode())
        holdfast = (sys.executable, "-m", "holdfast")
        handed = ("--fd", str(listening.fileno()), "--token-fd", str(token_file.fileno()))
        api = (*holdfast, "serve", *handed, "--store", where)
        worker = (*holdfast, "worker", *([app_at] if app_at else []), "--store", where)
        worker += () if concurrency is None else ("--concurrency", str(concurrency))
        names = ["worker"] if workers == 1 else [f"worker-{nth}" for nth in range(1, workers + 1)]
        supervisor = Supervisor(
            [
                SupervisedProcess("api", api, shared=(listening.fileno(), token_file.fileno())),
                *(SupervisedProcess(name, worker) for name in names),
            ],
            tell=lambda message: click.echo(f"  {message}", err=True),
            up=lambda: _greet(url_of(listening), where, token),
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, supervisor.stop)
        return await supervisor.run()


def _greet(url: str, where: str, token: str) -> None:
    click.secho(f"Holdfast is up at {url}, on {where}. Stop it with Ctrl-C.", bold=True, err=True)
    click.echo(f"  {page_link(url, token)}", err=True)
    click.echo(f"In another terminal, after `export HOLDFAST_API_URL={url}`:", err=True)
    for line in ("holdfast agent create helper", "holdfast chat helper", "holdfast jobs --watch"):
        click.echo(f"  {line}", err=True)
    if address.parse(where).kind == "sqlite":  # another address may contain a password
        click.echo("To see recovery on the page, run the demo, which kills a worker three times:", err=True)
        click.echo(f"  holdfast demo --store {shlex.quote(where)}", err=True)
