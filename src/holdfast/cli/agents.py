"""`holdfast agents`: who is there to take work, wherever they live."""

from __future__ import annotations

import click

from holdfast.api.work_records import AgentEntryList
from holdfast.cli import render
from holdfast.cli.open_store import client_at
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import plain, show, table, wait_for
from holdfast.model.agent_registry import AgentStatus
from holdfast.model.time import from_iso
from holdfast.store.clock import SystemClock


@click.command()
@click.option("--type", "agent_type", metavar="TYPE", help="Only agents of this type.")
@click.option("--status", type=click.Choice([*AgentStatus]), help="Only those that are so now.")
@click.option("--capability", metavar="NAME", help="Only those that can do this.")
@click.option("--project", metavar="NAME", help="Only those of this project.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many.")
@click.option("--cursor", help="Go on where the last page ended.")
@store_option
@json_option
def agents(
    where: str,
    *,
    agent_type: str | None,
    status: str | None,
    capability: str | None,
    project: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List the agents that have registered: what they can do, and whether they are there.

    Example: holdfast agents --capability summarize --status online
    """

    async def look() -> AgentEntryList:
        async with client_at(where) as client:
            return await client.list_registry(
                agent_type=agent_type,
                status=None if status is None else AgentStatus(status),
                capability=capability,
                project_id=project,
                limit=limit,
                cursor=cursor,
            )

    page = wait_for(look())
    if as_json:
        for one in page.agents:
            show(one, as_json=True)
    elif page.agents:
        now = SystemClock().wall_us()
        rows = [
            (
                one.handle,
                one.agent_type,
                one.status,
                f"{one.current_task_count}/{one.max_concurrent_tasks}",
                ", ".join(one.capabilities),
                f"{render.span(now - from_iso(one.last_heartbeat))} ago" if one.last_heartbeat else "",
                one.guid,
            )
            for one in page.agents
        ]
        heads = ("agent", "type", "status", "tasks", "capabilities", "heard", "guid")
        table(heads, rows, as_json=False)
    else:
        click.echo("no agents; holdfast serve, then POST /api/agents/register, or holdfast mcp", err=True)
    if page.registry.stale_since is not None:
        since = render.instant(from_iso(page.registry.stale_since))
        click.echo(f"NATS is away since {since}: this is the last that is known", err=True)
    if page.next is not None:
        click.echo(f"more: --cursor {plain(page.next)}", err=True)
