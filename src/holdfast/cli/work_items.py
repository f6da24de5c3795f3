"""`holdfast work`: work items, routed by capability to agents here or elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.api.work_records import WorkView
from holdfast.cli import render
from holdfast.cli.open_store import client_at
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import plain, show, to_json, wait_for
from holdfast.client.client import Client
from holdfast.errors import InvalidPayload, NotOver
from holdfast.model.time import from_iso
from holdfast.model.work import WorkStatus
from holdfast.model.worker_identity import short_name

if TYPE_CHECKING:
    from rich.table import Table

    from holdfast.api.work_records import WorkList

T = TypeVar("T")


@click.group()
def work() -> None:
    """Work items, routed by capability: submit, list, show, cancel.

    Example: holdfast work submit "Sum up page 3" --capability summarize
    """


@work.command()
@click.argument("description")
@click.option(
    "--capability", required=True, metavar="NAME", help="Capability that an agent needs to take it."
)
@click.option("--boundary", metavar="NAME", help="Only agents inside this boundary may take it.")
@click.option(
    "--priority", default=5, show_default=True, type=click.IntRange(1, 10), help="1 (last) to 10 (first)."
)
@click.option("--deadline", metavar="INSTANT", help="Latest time to start it: 2026-12-01T12:00:00Z.")
@click.option("--task-id", metavar="ID", help="Idempotency key: the same id is the same work item.")
@click.option("--agent-type", metavar="TYPE", help="Only agents of this type.")
@click.option("--prefer", metavar="TYPE", help="Prefer agents of this type.")
@click.option("--project", metavar="NAME", help="Project of the work item.")
@click.option("--data", metavar="JSON", help="Data for the agent; - reads it from stdin.")
@click.option("--wait", "waits", is_flag=True, help="Wait for its end and print the result.")
@store_option
@json_option
def submit(
    description: str, where: str, *, data: str | None, waits: bool, as_json: bool, **asked: Any
) -> None:
    """Submit a work item. It is stored durably when this returns.

    Example: holdfast work submit "Translate it" --capability translate --data '{"page": 3}' --wait
    """

    async def ask(client: Client) -> WorkView:
        submitted = await client.submit_work(
            description,
            asked["capability"],
            boundary=asked["boundary"],
            priority=asked["priority"],
            deadline=asked["deadline"],
            task_id=asked["task_id"],
            required_agent_type=asked["agent_type"],
            preferred_agent_type=asked["prefer"],
            project_id=asked["project"],
            context_data=_data(data),
        )
        if not waits:
            return submitted
        click.echo(
            f"work {plain(submitted.id)} waits for an agent with the capability {plain(submitted.capability)}",
            err=True,
        )
        while True:
            try:
                await client.result(submitted.id, timeout_s=10)
            except NotOver:
                if (view := await client.get_work(submitted.id)).status is WorkStatus.DEAD_LETTER:
                    return view
                continue
            return await client.get_work(submitted.id)

    view = _asked(where, ask, making=True)
    _show(view, as_json=as_json)
    if not waits:
        click.echo(f"Follow it: holdfast work show {plain(view.id)}", err=True)
    elif view.status is not WorkStatus.COMPLETED:
        sys.exit(1)


@work.command("list")
@click.option("--status", type=click.Choice([*WorkStatus]), help="Only work with this status.")
@click.option("--capability", metavar="NAME", help="Only work for this capability.")
@click.option("--boundary", metavar="NAME", help="Only work inside this boundary.")
@click.option("--project", metavar="NAME", help="Only work of this project.")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="Most rows to show."
)
@click.option("--cursor", help="Continue after the last page.")
@store_option
@json_option
def list_(
    where: str,
    *,
    status: str | None,
    capability: str | None,
    boundary: str | None,
    project: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List work, newest first.

    Example: holdfast work list --status pending --capability summarize
    """

    async def look(client: Client) -> WorkList:
        return await client.list_work(
            status=status,
            capability=capability,
            boundary=boundary,
            project_id=project,
            limit=limit,
            cursor=cursor,
        )

    page = _asked(where, look)
    if as_json:
        for item in page.items:
            show(item, as_json=True)
    elif page.items:
        render.console().print(_listed(page.items))
    else:
        click.echo("no work items. Submit one: holdfast work submit TEXT --capability NAME", err=True)
    if page.next is not None:
        click.echo(f"more: --cursor {plain(page.next)}", err=True)


@work.command("show")
@click.argument("work_id")
@store_option
@json_option
def show_(work_id: str, where: str, *, as_json: bool) -> None:
    """Show one work item: agent, progress, result.

    Example: holdfast work show job_01…
    """
    _show(_asked(where, lambda client: client.get_work(work_id)), as_json=as_json)


@work.command()
@click.argument("work_id")
@click.option("--why", default="", help="The reason; written to the journal.")
@store_option
@json_option
def cancel(work_id: str, where: str, *, why: str, as_json: bool) -> None:
    """Cancel a work item. The agent that holds it can no longer report on it.

    Example: holdfast work cancel job_01… --why "not needed"
    """
    _show(_asked(where, lambda client: client.cancel_work(work_id, why=why)), as_json=as_json)


def _asked(where: str, ask: Callable[[Client], Awaitable[T]], *, making: bool = False) -> T:
    async def asked() -> T:
        async with client_at(where, making=making) as client:
            return await ask(client)

    return wait_for(asked())


def _data(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        msg = f"--data is not JSON: {error}"
        raise InvalidPayload(msg, hint="Write it as '{\"page\": 3}', or give - and pipe it in.") from None


def _show(view: WorkView, *, as_json: bool) -> None:
    if as_json:
        show(view, as_json=True)
        return
    rows = [
        ("work", view.id),
        ("status", view.status),
        ("what", view.description),
        ("capability", view.capability),
        ("boundary", view.boundary),
        ("task", view.task_id),
        (
            "for",
            view.required_agent_type or (view.preferred_agent_type and f"{view.preferred_agent_type} first"),
        ),
        ("priority", view.priority),
        ("deadline", view.deadline),
        ("project", view.project_id),
        ("held by", view.assigned_to and short_name(view.assigned_to)),
        ("since", view.assigned_at and render.instant(from_iso(view.assigned_at))),
        (
            "progress",
            None if view.progress is None else f"{view.progress} %  {view.progress_note or ''}".rstrip(),
        ),
        ("attempts", view.attempts or None),
        ("data", None if view.context_data is None else to_json(view.context_data)),
        ("result", None if view.result is None else to_json(view.result)),
        ("error", None if view.error is None else to_json(view.error)),
    ]
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for name, value in rows:
        if value is not None and value != "":
            grid.add_row(name, render.text(value, render.STYLES.get(str(value), "")))
    render.console().print(grid)


def _listed(items: Sequence[WorkView]) -> Table:
    from rich.table import Table

    grid = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("work", "status", "capability", "held by", "done", "what"):
        grid.add_column(column, no_wrap=True, overflow="ellipsis")
    grid.columns[0].min_width = max(min(len(item.id), 40) for item in items)
    grid.columns[1].min_width = max(len(item.status) for item in items)
    grid.columns[4].min_width = 4
    for item in items:
        grid.add_row(
            render.text(item.id),
            render.text(item.status, render.STYLES.get(item.status, "yellow")),
            render.text(item.capability),
            render.text(short_name(item.assigned_to or "")[:12]),
            "" if item.progress is None else f"{item.progress}%",
            render.text(item.description),
        )
    return grid
