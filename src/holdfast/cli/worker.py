"""`holdfast worker`: runs a worker process, lists the workers of a store, and drains one of them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.api.job_records import WorkerView
from holdfast.cli import render
from holdfast.cli.isolated import make_isolated_command
from holdfast.cli.logs import format_option, level_option, logging_as
from holdfast.cli.open_store import client_at, store_for
from holdfast.cli.options import app_store_option, by_option, json_option, operation_option, store_option
from holdfast.cli.output import plain, show, table, to_json, wait_for
from holdfast.client.client import Client
from holdfast.engine.telemetry import SILENT, Telemetry
from holdfast.errors import InvalidSetting, NotFound
from holdfast.model.ids import check_name
from holdfast.model.limits import ROWS_PER_PAGE_MAX
from holdfast.model.page import Page
from holdfast.model.worker_presence import WorkerOffer, WorkerState
from holdfast.runtime import supervisor_link
from holdfast.runtime.app import App
from holdfast.runtime.app_loader import load
from holdfast.runtime.process import Process, open_process

if TYPE_CHECKING:
    from holdfast.server.app import Service


class WorkerGroup(click.Group):
    """Command group with a default: `holdfast worker app.py` is `holdfast worker run app.py`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options of `run`, which a reader expects here, and the other commands below them."""
        run = self.commands["run"]
        formatter.write_usage(ctx.command_path, "[OPTIONS] [APP]")
        formatter.write_usage(ctx.command_path, "COMMAND [ARGS]...", prefix="       ")
        self.format_help_text(ctx, formatter)
        with click.Context(run, info_name=ctx.info_name, parent=ctx.parent) as inner:
            run.format_options(inner, formatter)
        self.format_commands(ctx, formatter)


@click.group(cls=WorkerGroup)
def worker() -> None:
    """Run a worker: claim and execute jobs.

    APP is the application: app.py, a module, or either with :NAME. Without APP the worker runs configured agents only.

    SIGTERM or Ctrl-C drains the worker: it claims no more jobs, waits a while for calls in progress, and releases its
    jobs between two calls. A second signal releases them at once. `holdfast worker drain` does it from anywhere.

    Example: holdfast worker app.py --queue mail --queue default --concurrency 32
    """


class _Port(msgspec.Struct, frozen=True):
    """Address of the worker's port for metrics and health."""

    host: str
    number: int
    names: tuple[str, ...]


@worker.command("run")
@click.argument("app_at", metavar="[APP]", required=False)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    help="Jobs to run at the same time.  [default: as the App declares, else 16]",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    help="Take jobs from this queue only; may be repeated.  [default: all queues that the application names]",
)
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    metavar="NAME",
    help="A capability of this worker; may be repeated.",
)
@click.option("--name", help="Name of this worker in journals; must be unique.")
@click.option(
    "--metrics-port",
    type=int,
    envvar="HOLDFAST_METRICS_PORT",
    show_envvar=True,
    help="Serve /metrics and /health on this port; 0 takes a free one.",
)
@click.option(
    "--metrics-host", default="127.0.0.1", show_default=True, help="Address that --metrics-port listens on."
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME[:PORT]",
    help="Another host name by which clients reach this port; may be repeated.",
)
@click.option("--print-store", is_flag=True, hidden=True, help="Print the address of the store, and stop.")
@format_option
@level_option
@app_store_option
def run(
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
    """Run a worker. `run` may be left out: `holdfast worker app.py` does the same.

    Example: holdfast worker run app.py
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
    alone = make_isolated_command(app_at, where, log_format, log_level)
    with logging_as(log_format, log_level) as log:
        wait_for(_work(app, offer, name, where, port, log.set_worker, alone))


async def _work(
    app: App,
    offer: WorkerOffer,
    name: str | None,
    where: str,
    port: _Port | None,
    set_worker: Callable[[str], None],
    isolated_command: tuple[str, ...] | None,
) -> None:
    meter = _meter(port)
    process = await open_process(
        app.programs(),
        where,
        offer=offer,
        name=name,
        strict=app.strict,
        schedules=tuple(app.schedules.values()),
        meter=meter,
        ends_when_blocked=True,
        isolated_command=isolated_command,
        on_undurable=app.choose_on_undurable("warn"),
    )
    set_worker(process.name)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(process.close)
        probe_server = None if port is None else await _open_door(stack, process, meter, port)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop, process, probe_server)
        process.set_drain_handler(lambda: _drain(process, probe_server))
        kinds = (
            ", ".join(sorted({*app.agents, *app.sessions}))
            or "configured agents only (the application declares none)"
        )
        if not supervisor_link.report_ready(kinds):
            click.echo(f"working on {kinds}; stop with Ctrl-C", err=True)
        await process.wait_until_done()


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

    probe = side_door(process.store, meter, port.host, port.number, port.names)
    url, service = await stack.enter_async_context(probe)
    click.echo(f"health and metrics: {url}/health, {url}/metrics", err=True)
    return service


def _drain(process: Process, probe_server: Service | None) -> None:
    click.echo("drain requested with `holdfast worker drain`", err=True)
    _stop(process, probe_server)


def _stop(process: Process, probe_server: Service | None) -> None:
    process.drain()
    if probe_server is not None:
        probe_server.drain()
    click.echo(
        "stopping: calls in progress finish, jobs are released. Press Ctrl-C again to release them at once.",
        err=True,
    )


# ── the workers of a store ────────────────────────────────────────────────────────────────────────


@worker.command("list")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="Most rows to show."
)
@click.option("--cursor", help="Continue after the last page.")
@store_option
@json_option
def list_(where: str, *, limit: int, cursor: str | None, as_json: bool) -> None:
    """List workers: state, jobs held, queues, kinds, last heartbeat.

    Example: holdfast worker list --json
    """

    async def look() -> Page[WorkerView]:
        async with client_at(where) as client:
            return await client.list_workers(limit=limit, cursor=cursor)

    page = wait_for(look())
    if as_json:
        for row in page:
            show(row, as_json=True)
    elif page.items:
        rows = [
            (
                row.label,
                _state(row),
                f"{row.holds}/{row.concurrency}",
                ", ".join(row.queues),
                ", ".join(row.kinds),
                render.instant(row.seen_at),
            )
            for row in page
        ]
        table(("worker", "state", "jobs", "queues", "kinds", "last heartbeat"), rows, as_json=False)
    else:
        click.echo("no workers. Start one: holdfast worker app.py", err=True)
    if page.next is not None:
        click.echo(f"more: --cursor {plain(page.next)}", err=True)


def _state(view: WorkerView) -> str:
    state = "running" if view.state is WorkerState.HERE else str(view.state)
    return f"{state}, drain requested" if view.drain_asked_at is not None and not view.draining else state


@worker.command()
@click.argument("worker", metavar="WORKER")
@click.option("--why", required=True, help="The reason; written to the audit log.")
@by_option
@operation_option
@store_option
@json_option
def drain(worker: str, where: str, *, why: str, by: str, operation_id: str | None, as_json: bool) -> None:
    """Drain a worker, wherever it runs: it claims no more jobs, releases its jobs between two calls, and exits.

    WORKER is a name from `holdfast worker list`, or the full name in a journal. The worker reads the request with its
    next heartbeat, within fifteen seconds. A supervisor such as `holdfast up` starts a new worker in its place.

    Example: holdfast worker drain shop-1:4711 --why 'the machine is needed'
    """

    async def request() -> WorkerView:
        async with client_at(where) as client:
            name = await _find_worker(client, worker)
            return await client.drain_worker(name, why=why, by=by, operation_id=operation_id)

    view = wait_for(request())
    if as_json:
        click.echo(to_json(view))
    else:
        click.echo(
            f"drain requested: {plain(view.label)} stops after its next heartbeat. See: holdfast worker list",
            err=True,
        )


async def _find_worker(client: Client, name: str) -> str:
    """The full name of the one worker with this name or label."""
    matches: list[WorkerView] = []
    cursor: str | None = None
    while True:
        page = await client.list_workers(limit=ROWS_PER_PAGE_MAX, cursor=cursor)
        matches += [view for view in page if name in {view.worker, view.label}]
        cursor = page.next
        if cursor is None:
            break
    exact = [view.worker for view in matches if view.worker == name]
    names = exact or [view.worker for view in matches]
    if len(names) == 1:
        return names[0]
    msg = f"{len(names)} workers are called {name!r}" if names else f"there is no worker {name!r}"
    raise NotFound(msg, hint="`holdfast worker list --json` shows the full names.")
