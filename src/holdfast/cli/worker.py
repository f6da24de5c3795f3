"""`holdfast worker`: a process that drives jobs until it is told to stop. `holdfast workers`: who does now."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.isolated import isolated_command
from holdfast.cli.logs import format_option, level_option, logging_as
from holdfast.cli.open_store import store_for
from holdfast.cli.options import app_store_option
from holdfast.cli.output import wait_for
from holdfast.engine.telemetry import SILENT, Telemetry
from holdfast.errors import InvalidSetting
from holdfast.model.ids import check_name
from holdfast.model.worker_presence import WorkerOffer
from holdfast.runtime import supervisor_link
from holdfast.runtime.app import App
from holdfast.runtime.app_loader import load
from holdfast.runtime.process import Process, opened

if TYPE_CHECKING:
    from holdfast.server.app import Service


class _Port(msgspec.Struct, frozen=True):
    """Where the worker tells how it is."""

    host: str
    number: int
    names: tuple[str, ...]


@click.command()
@click.argument("app_at", metavar="[APP]", required=False)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    help="How many jobs it drives at a time.  [default: as the App declares, 16 if it does not]",
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
@click.option(
    "--metrics-port",
    type=int,
    envvar="HOLDFAST_METRICS_PORT",
    show_envvar=True,
    help="Answer /metrics and /health here; 0 takes a port that is free.",
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Where --metrics-port listens.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME[:PORT]",
    help="Another name that its port is reached by.",
)
@click.option("--print-store", is_flag=True, hidden=True, help="Print the store that it would work on.")
@format_option
@level_option
@app_store_option
def worker(
    app_at: str | None,
    concurrency: int | None,
    queues: tuple[str, ...],
    capabilities: tuple[str, ...],
    name: str | None,
    metrics_port: int | None,
    metrics_host: str,
    hosts: tuple[str, ...],
    where: str,
    *,
    print_store: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Drive the jobs of an application: app.py, a module, or either with :NAME. Without one, of configured agents.

    SIGTERM or Ctrl-C: it claims nothing more, lets the calls that run come to their end for a while, and gives its jobs
    back between two calls. Twice: it gives everything back at once. `holdfast workers drain` says it from elsewhere.

    Example: holdfast worker app.py --queue mail --queue default --concurrency 32
    """
    for queue in queues:
        check_name(queue, "queue")
    port = None if metrics_port is None else _Port(metrics_host, metrics_port, hosts)
    app = App(where) if app_at is None else load(app_at)
    where = store_for(app, where)
    if print_store:
        click.echo(where)
        return
    offer = app.offer(
        queues=tuple(dict.fromkeys(queues)),
        capabilities=tuple(dict.fromkeys(capabilities)),
        concurrency=concurrency or app.concurrency,
    )
    offer = msgspec.structs.replace(offer, drains=True)
    alone = isolated_command(app_at, where, log_format, log_level)
    with logging_as(log_format, log_level) as log:
        wait_for(_work(app, offer, name, where, port, log.named, alone))


async def _work(
    app: App,
    offer: WorkerOffer,
    name: str | None,
    where: str,
    port: _Port | None,
    named: Callable[[str], None],
    alone: tuple[str, ...] | None,
) -> None:
    meter = _meter(port)
    process = await opened(
        app.programs(),
        where,
        offer=offer,
        name=name,
        strict=app.strict,
        schedules=tuple(app.schedules.values()),
        meter=meter,
        ends_when_blocked=True,
        isolated_command=alone,
        on_undurable=app.choose_on_undurable("warn"),
    )
    named(process.name)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(process.close)
        door = None if port is None else await _open_door(stack, process, meter, port)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop, process, door)
        process.heed(lambda: _asked(process, door))
        kinds = (
            ", ".join(sorted({*app.agents, *app.sessions}))
            or "configured agents; it declares none of its own"
        )
        if not supervisor_link.ready(kinds):
            click.echo(f"working on {kinds}; stop with Ctrl-C", err=True)
        await process.done()


def _meter(port: _Port | None) -> Telemetry:
    if port is None:
        return SILENT
    try:
        from holdfast.server.metrics.meter import Metrics
    except ImportError as error:
        msg = "the HTTP server is not installed"
        raise InvalidSetting(msg, hint="pip install 'holdfast[server]'") from error
    return Metrics()


async def _open_door(stack: contextlib.AsyncExitStack, process: Process, meter: Any, port: _Port) -> Service:
    from holdfast.server.probe_server import side_door

    door = side_door(process.store, meter, port.host, port.number, port.names)
    url, service = await stack.enter_async_context(door)
    click.echo(f"how it is: {url}/health, {url}/metrics", err=True)
    return service


def _asked(process: Process, door: Service | None) -> None:
    click.echo("asked to drain, as `holdfast workers` shows", err=True)
    _stop(process, door)


def _stop(process: Process, door: Service | None) -> None:
    process.drain()
    if door is not None:
        door.drain()
    click.echo("stopping: what runs is finished or given back; once more to give it back at once", err=True)
