"""`holdfast schedule`: schedules (cron)."""

from __future__ import annotations

import click

from holdfast.cli import render
from holdfast.cli.open_store import client_at
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import plain, table, to_json, wait_for
from holdfast.model.jobs import DEFAULT_QUEUE
from holdfast.model.page import Page
from holdfast.model.schedule import CatchUp, Schedule


@click.group()
def schedule() -> None:
    """Manage schedules (cron). Applications declare them with `@hf.schedule`; others are created here.

    Example: holdfast schedule list
    """


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@click.argument("kind", metavar="AGENT")
@click.argument("cron")
@click.option("--tz", default="UTC", show_default=True, help="Time zone of the cron expression.")
@click.option(
    "--catch-up",
    default="skip",
    show_default=True,
    type=click.Choice([one.value for one in CatchUp]),
    help="What to do about times that passed while no worker was running.",
)
@click.option("--input", "given_as", metavar="JSON|@FILE", help="Arguments of the agent.")
@click.option("--queue", default=DEFAULT_QUEUE, show_default=True, help="Queue of its jobs.")
@store_option
@json_option
def create(
    schedule_id: str,
    kind: str,
    cron: str,
    tz: str,
    catch_up: str,
    given_as: str | None,
    queue: str,
    where: str,
    *,
    as_json: bool,
) -> None:
    """Create a schedule: start an agent by a cron expression (minute, hour, day, month, weekday).

    Repeating the command changes nothing.

    Example: holdfast schedule create morning report "0 7 * * 1-5" --tz Europe/Berlin
    """
    from holdfast.cli.decisions import parse_argument

    async def work() -> Schedule:
        async with client_at(where) as client:
            return await client.create_schedule(
                schedule_id,
                kind,
                cron,
                time_zone=tz,
                catch_up=CatchUp(catch_up),
                input={} if given_as is None else parse_argument(given_as),
                queue=queue,
            )

    created = wait_for(work())
    if as_json:
        click.echo(to_json(created))
    click.echo(f"{plain(created.schedule_id)} fires next at {render.instant(created.next_at)}", err=True)


@schedule.command("list")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="Most rows to show."
)
@click.option("--cursor", help="Continue after the last page.")
@store_option
@json_option
def list_(where: str, *, limit: int, cursor: str | None, as_json: bool) -> None:
    """List schedules by id.

    Example: holdfast schedule list --json
    """

    async def look() -> Page[Schedule]:
        async with client_at(where) as client:
            return await client.list_schedules(limit=limit, cursor=cursor)

    page = wait_for(look())
    if as_json:
        for row in page:
            click.echo(to_json(row))
    elif page.items:
        rows = [
            (
                row.schedule_id,
                row.kind,
                row.cron,
                row.time_zone,
                row.catch_up,
                "paused" if row.paused else render.instant(row.next_at),
            )
            for row in page
        ]
        table(("schedule", "agent", "cron", "time zone", "catch-up", "next"), rows, as_json=False)
    else:
        click.echo(
            "no schedules. Declare one with @hf.schedule, or create one: holdfast schedule create ID AGENT CRON",
            err=True,
        )
    if page.next is not None:
        click.echo(f"more: --cursor {page.next}", err=True)


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@store_option
def pause(schedule_id: str, where: str) -> None:
    """Pause a schedule until it is resumed.

    Example: holdfast schedule pause report
    """

    async def work() -> Schedule:
        async with client_at(where) as client:
            return await client.pause_schedule(schedule_id)

    click.echo(f"{plain(wait_for(work()).schedule_id)} is paused", err=True)


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@store_option
def resume(schedule_id: str, where: str) -> None:
    """Resume a schedule from its next time on. Times that passed during the pause are skipped.

    Example: holdfast schedule resume report
    """

    async def work() -> Schedule:
        async with client_at(where) as client:
            return await client.resume_schedule(schedule_id)

    resumed = wait_for(work())
    click.echo(f"{plain(resumed.schedule_id)} fires next at {render.instant(resumed.next_at)}", err=True)


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@store_option
def remove(schedule_id: str, where: str) -> None:
    """Remove a schedule. Its jobs stay. An application that declares the schedule creates it again.

    Example: holdfast schedule remove report
    """

    async def work() -> Schedule:
        async with client_at(where) as client:
            return await client.remove_schedule(schedule_id)

    click.echo(f"{plain(wait_for(work()).schedule_id)} is removed", err=True)
