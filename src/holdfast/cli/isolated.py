"""`holdfast isolated`: runs one job in a process of its own, for the worker that started it. Internal command."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable

import click
import msgspec

from holdfast.cli.logs import format_option, level_option, logging_as
from holdfast.cli.options import store_option
from holdfast.cli.output import wait_for
from holdfast.errors import Misuse
from holdfast.model.crash_suspects import STORE_AWAY
from holdfast.runtime import supervisor_link
from holdfast.runtime.app import App
from holdfast.runtime.app_loader import load
from holdfast.runtime.isolated_process import open_isolated
from holdfast.runtime.isolation import HANDED, Handover
from holdfast.runtime.process import RunOptions
from holdfast.store import address


def make_isolated_command(
    app_at: str | None, where: str, log_format: str | None = None, log_level: str | None = None
) -> tuple[str, ...] | None:
    """The command that starts a child process with the same application; None for a memory store, which no other
    process can open."""
    if address.parse(where).kind == "memory":
        return None
    options = [("--log-format", log_format), ("--log-level", log_level)]
    arguments = [argument for option, value in options if value is not None for argument in (option, value)]
    return (sys.executable, "-m", "holdfast", "isolated", *([app_at] if app_at else []), *arguments)


@click.command("isolated", hidden=True)
@click.argument("app_at", metavar="[APP]", required=False)
@format_option
@level_option
@store_option
def run_isolated(app_at: str | None, where: str, *, log_format: str, log_level: str) -> None:
    """Run one job in this process, for the worker that started it."""
    encoded = os.environ.pop(HANDED, "")
    if not encoded:
        msg = "no worker has handed a job to this process"
        raise Misuse(msg, hint="Start a worker: holdfast worker app.py")
    handed = msgspec.json.decode(encoded, type=Handover)
    with logging_as(log_format, log_level) as log:
        app = App(where) if app_at is None else load(app_at)
        sys.exit(wait_for(_drive(app, where, handed, log.set_worker)))


async def _drive(app: App, where: str, handed: Handover, set_worker: Callable[[str], None]) -> int:
    """Runs the job; returns the exit status: that of an unavailable store, or 0."""
    options = RunOptions(strict=app.strict, on_undurable=app.choose_on_undurable("warn"))
    async with open_isolated(app.programs(), where, handed, options) as worker:
        set_worker(worker.name)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, worker.drain)
        loop.add_signal_handler(signal.SIGINT, lambda: worker.drain(at_once=True))
        supervisor_link.report_ready(worker.name)
        await worker.work()
        return STORE_AWAY if worker.is_store_away else 0
