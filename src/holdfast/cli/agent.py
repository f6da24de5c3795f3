"""`holdfast agent`: configured agents (create, list, show), and external agents that have registered."""

from __future__ import annotations

import click
import msgspec

from holdfast.api.job_records import AgentView
from holdfast.api.work_records import AgentEntryList, AgentEntryView
from holdfast.cli import render
from holdfast.cli.open_store import client_at, server
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import plain, show, table, wait_for
from holdfast.errors import NotFound
from holdfast.model.agent_registry import AgentStatus
from holdfast.model.configured_agents import Configuration, HostedAgent
from holdfast.model.limits import ROWS_PER_PAGE_MAX
from holdfast.model.page import Page
from holdfast.model.time import from_iso
from holdfast.store.clock import SystemClock


@click.group()
def agent() -> None:
    """Agents: create, list and show configured agents; list external agents.

    A configured agent has a model, instructions, and tools of an application, and no code of its own. An external agent
    runs elsewhere and has registered to take work.

    Example: holdfast agent create helper --model anthropic:claude-sonnet-4-5
    """


@agent.command()
@click.argument("name")
@click.option(
    "--model",
    help="anthropic:NAME, openai:NAME or scripted:FILE.  [default: a script that explains how to choose]",
)
@click.option("--instructions", default="", help="System prompt of every conversation.")
@click.option(
    "--tool", "tools", multiple=True, metavar="NAME", help="A tool of the application; may be repeated."
)
@click.option(
    "--context-tokens-max",
    type=click.IntRange(min=1),
    help="Summarize a conversation that grows beyond this.",
)
@click.option("--app", "app_at", envvar="HOLDFAST_APP", help="The application; checks that it has the tools.")
@store_option
@json_option
def create(
    name: str,
    model: str | None,
    instructions: str,
    tools: tuple[str, ...],
    context_tokens_max: int | None,
    app_at: str | None,
    where: str,
    *,
    as_json: bool,
) -> None:
    """Create an agent. Repeating the command changes nothing; the same name with other settings is rejected.

    Example: holdfast agent create helper --instructions "Be brief." --tool lookup --app app.py
    """
    from holdfast.agents.configured_agents import check_hosted, select_tools
    from holdfast.runtime.app_loader import load

    configuration = Configuration(
        model=model, instructions=instructions, tools=tools, context_tokens_max=context_tokens_max
    )
    if app_at is not None:
        select_tools(tools, load(app_at).callees)
    if not server():  # a server's workers may have model clients that this machine lacks
        check_hosted(HostedAgent(agent_id="new", name=name, configuration=configuration))

    async def work() -> AgentView:
        async with client_at(where, making=True) as client:
            return await client.create_agent(name, **msgspec.structs.asdict(configuration))

    created = wait_for(work())
    _show(created, as_json=as_json)
    click.echo(f"Talk to it: holdfast chat {plain(created.name)}", err=True)


@agent.command("list")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="Most rows to show."
)
@click.option("--cursor", help="Continue after the last page.")
@store_option
@json_option
def list_(where: str, *, limit: int, cursor: str | None, as_json: bool) -> None:
    """List configured agents and agents of applications, by name.

    Example: holdfast agent list --json
    """

    async def look() -> Page[AgentView]:
        async with client_at(where) as client:
            return await client.list_agents(limit=limit, cursor=cursor)

    page = wait_for(look())
    rows = [
        (
            agent_view.name,
            agent_view.agent_id,
            *_told(agent_view),
        )
        for agent_view in page
    ]
    if rows:
        table(("name", "id", "model", "tools"), rows, as_json=as_json)
    else:
        click.echo("no agents. Create one: holdfast agent create NAME", err=True)
    if page.next is not None:
        click.echo(f"more: --cursor {page.next}", err=True)


@agent.command("show")
@click.argument("name")
@store_option
@json_option
def show_(name: str, where: str, *, as_json: bool) -> None:
    """Show one agent, by name or id. For external agents: `holdfast agent external HANDLE`.

    Example: holdfast agent show helper
    """

    async def look() -> AgentView:
        async with client_at(where) as client:
            return await client.get_agent(name)

    _show(wait_for(look()), as_json=as_json)


@agent.command()
@click.argument("name", metavar="[HANDLE|GUID]", required=False)
@click.option("--type", "agent_type", metavar="TYPE", help="Only agents of this type.")
@click.option("--status", type=click.Choice([*AgentStatus]), help="Only agents with this status.")
@click.option("--capability", metavar="NAME", help="Only agents with this capability.")
@click.option("--project", metavar="NAME", help="Only agents of this project.")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="Most rows to show."
)
@click.option("--cursor", help="Continue after the last page.")
@store_option
@json_option
def external(
    name: str | None,
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
    """External agents: list those that have registered, or inspect one.

    Example: holdfast agent external --capability summarize --status online
    """
    if name is not None:
        for entry in wait_for(_entries(name, where)):
            _show_entry(entry, as_json=as_json)
        return

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
        for row in page.agents:
            show(row, as_json=True)
    elif page.agents:
        now = SystemClock().wall_us()
        rows = [
            (
                row.handle,
                row.agent_type,
                row.status,
                f"{row.current_task_count}/{row.max_concurrent_tasks}",
                ", ".join(row.capabilities),
                f"{render.span(now - from_iso(row.last_heartbeat))} ago" if row.last_heartbeat else "",
                row.guid,
            )
            for row in page.agents
        ]
        heads = ("agent", "type", "status", "tasks", "capabilities", "heartbeat", "guid")
        table(heads, rows, as_json=False)
    else:
        click.echo(
            "no external agents. An agent registers with POST /api/agents/register or through holdfast mcp.",
            err=True,
        )
    if page.registry.stale_since is not None:
        since = render.instant(from_iso(page.registry.stale_since))
        click.echo(f"NATS is unreachable since {since}: this is the last known state", err=True)
    if page.next is not None:
        click.echo(f"more: --cursor {plain(page.next)}", err=True)


async def _entries(name: str, where: str) -> list[AgentEntryView]:
    """The registered agents with this handle or GUID."""
    entries: list[AgentEntryView] = []
    cursor: str | None = None
    async with client_at(where) as client:
        while True:
            page = await client.list_registry(limit=ROWS_PER_PAGE_MAX, cursor=cursor)
            entries += [entry for entry in page.agents if name in {entry.handle, entry.guid}]
            cursor = page.next
            if cursor is None:
                break
    if entries:
        return entries
    msg = f"no external agent {name!r} is registered"
    raise NotFound(msg, hint="`holdfast agent external` lists those that are.")


def _show_entry(entry: AgentEntryView, *, as_json: bool) -> None:
    if as_json:
        show(entry, as_json=True)
        return
    values = {name: value for name, value in msgspec.structs.asdict(entry).items() if value}
    lists = {name: ", ".join(value) for name, value in values.items() if isinstance(value, tuple)}
    show(values | lists, as_json=False, title=plain(entry.handle))


def _told(agent_view: AgentView) -> tuple[str, str]:
    """The model and the tools of an agent, if they are configured."""
    if agent_view.configuration is None:
        return "code", "its own"
    return agent_view.configuration.model or "built-in script", ", ".join(
        agent_view.configuration.tools
    ) or "none"


def _show(agent_view: AgentView, *, as_json: bool) -> None:
    if as_json:
        show(agent_view, as_json=True)
        return
    configuration = (
        {} if agent_view.configuration is None else msgspec.structs.asdict(agent_view.configuration)
    )
    configuration["model"], configuration["tools"] = _told(agent_view)
    created = "" if agent_view.created_at is None else render.instant(agent_view.created_at)
    values = {
        "id": agent_view.agent_id,
        "kind": agent_view.kind,
        "created": created,
        "session": agent_view.session_id,
        **configuration,
    }
    values = {name: value for name, value in values.items() if value not in {None, ""}}
    show(values, as_json=False, title=plain(agent_view.name))
