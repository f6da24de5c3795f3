"""`holdfast mcp`: an MCP server over stdin and stdout."""

from __future__ import annotations

import random

import click

from holdfast.cli.logs import format_option, level_option, logging_as
from holdfast.cli.open_store import client_at
from holdfast.cli.options import store_option
from holdfast.cli.output import wait_for
from holdfast.errors import InvalidSetting
from holdfast.store.clock import SystemClock


@click.command()
@format_option
@level_option
@store_option
def mcp(where: str, *, log_format: str, log_level: str) -> None:
    """Serve Holdfast to an MCP client over stdio: agents, work, dead letters, traces, approvals. It uses the
    server that HOLDFAST_API_URL names, or the store.

    Leases of work that the session claims are renewed while this process lives, and released when it exits.

    Example: holdfast mcp --store sqlite:///holdfast.db
    """
    try:
        from holdfast.server.mcp.lease_keeper import Keeping
        from holdfast.server.mcp.server import serve_stdio
        from holdfast.server.mcp.tools import McpContext
    except ImportError as error:
        msg = "the MCP server is not installed"
        raise InvalidSetting(msg, hint="pip install 'holdfast[mcp]'") from error

    async def serve() -> None:
        async with client_at(where, making=True) as client:
            await serve_stdio(McpContext(client, Keeping(client, SystemClock(), random.random)))

    with logging_as(log_format, log_level):
        wait_for(serve())
