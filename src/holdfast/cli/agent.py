"""`holdfast agent`: agents that are configured, not written."""

from __future__ import annotations

import click
import msgspec

from holdfast.api.job_records import AgentView
from holdfast.cli import render
from holdfast.cli.open_store import client_at, server
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import plain, show, table, wait_for
from holdfast.model.configured_agents import Configuration, HostedAgent
from holdfast.model.page import Page


@click.group()
def agent() -> None:
    """Agents that are configured: a model, instructions, and tools of an application.

    Example: holdfast agent create helper --model anthropic:claude-sonnet-4-5
    """


@agent.command()
@click.argument("name")
@click.option(
    "--model", help="anthropic:NAME, openai:NAME or scripted:FILE; none is a script that says how to choose."
)
@click.option("--instructions", default="", help="What the model is told before every conversation.")
@click.option(
    "--tool", "tools", multiple=True, metavar="NAME", help="A tool of the application; as often as needed."
)
@click.option(
    "--context-tokens-max", type=click.IntRange(min=1), help="Beyond so much it goes on from a summary."
)
@click.option(
    "--app", "app_at", envvar="HOLDFAST_APP", help="The application, to see whether it has the tools."
)
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
    """Create an agent. The same again is the same agent; another one of its name is refused.

    Example: holdfast agent create helper --instructions "Be brief." --tool lookup --app app.py
    """
    from holdfast.agents.configured_agents import check_hosted, chosen
    from holdfast.runtime.app_loader import load

    told = Configuration(
        model=model, instructions=instructions, tools=tools, context_tokens_max=context_tokens_max
    )
    if app_at is not None:
        chosen(tools, load(app_at).callees)
    if not server():  # where its workers are, somebody else knows what they have
        check_hosted(HostedAgent(agent_id="new", name=name, configuration=told))

    async def work() -> AgentView:
        async with client_at(where, making=True) as client:
            return await client.create_agent(name, **msgspec.structs.asdict(told))

    made = wait_for(work())
    _show(made, as_json=as_json)
    click.echo(f"holdfast chat {plain(made.name)} talks to it", err=True)


@agent.command("list")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many.")
@click.option("--cursor", help="Go on where the last page ended.")
@store_option
@json_option
def list_(where: str, *, limit: int, cursor: str | None, as_json: bool) -> None:
    """List agents by name.

    Example: holdfast agent list --json
    """

    async def look() -> Page[AgentView]:
        async with client_at(where) as client:
            return await client.list_agents(limit=limit, cursor=cursor)

    page = wait_for(look())
    rows = [
        (
            one.name,
            one.agent_id,
            *_told(one),
        )
        for one in page
    ]
    if rows:
        table(("name", "id", "model", "tools"), rows, as_json=as_json)
    else:
        click.echo("no agents; holdfast agent create NAME makes one", err=True)
    if page.next is not None:
        click.echo(f"more: --cursor {page.next}", err=True)


@agent.command("show")
@click.argument("name")
@store_option
@json_option
def show_(name: str, where: str, *, as_json: bool) -> None:
    """One agent, by its name or id.

    Example: holdfast agent show helper
    """

    async def look() -> AgentView:
        async with client_at(where) as client:
            return await client.get_agent(name)

    _show(wait_for(look()), as_json=as_json)


def _told(one: AgentView) -> tuple[str, str]:
    """Its model and its tools, as far as they are configured."""
    if one.configuration is None:
        return "code", "its own"
    return one.configuration.model or "built-in script", ", ".join(one.configuration.tools) or "none"


def _show(one: AgentView, *, as_json: bool) -> None:
    if as_json:
        show(one, as_json=True)
        return
    told = {} if one.configuration is None else msgspec.structs.asdict(one.configuration)
    told["model"], told["tools"] = _told(one)
    created = "" if one.created_at is None else render.instant(one.created_at)
    values = {"id": one.agent_id, "kind": one.kind, "created": created, "session": one.session_id, **told}
    values = {name: value for name, value in values.items() if value not in {None, ""}}
    show(values, as_json=False, title=plain(one.name))
