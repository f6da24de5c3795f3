"""`holdfast schedule`: what begins by the clock."""

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
    """Schedules: agents that begin by the clock. Declared with `@hf.schedule`, or created here.

    Example: holdfast schedule list
    """


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@click.argument("kind", metavar="AGENT")
@click.argument("cron")
@click.option("--tz", default="UTC", show_default=True, help="The time zone of the times.")
@click.option(
    "--catch-up",
    default="skip",
    show_default=True,
    type=click.Choice([one.value for one in CatchUp]),
    help="What becomes of instants at which no worker was there.",
)
@click.option("--input", "given_as", metavar="JSON|@FILE", help="The agent's arguments.")
@click.option("--queue", default=DEFAULT_QUEUE, show_default=True, help="Where its jobs go.")
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
    """An agent begins by the clock: minute, hour, day, month, weekday. The same again is the same schedule.

    Example: holdfast schedule create morning report "0 7 * * 1-5" --tz Europe/Berlin
    """
    from holdfast.cli.decisions import given

    async def work() -> Schedule:
        async with client_at(where) as client:
            return await client.create_schedule(
                schedule_id,
                kind,
                cron,
                time_zone=tz,
                catch_up=CatchUp(catch_up),
                input={} if given_as is None else given(given_as),
                queue=queue,
            )

    one = wait_for(work())
    if as_json:
        click.echo(to_json(one))
    click.echo(f"{plain(one.schedule_id)} fires next at {render.instant(one.next_at)}", err=True)


@schedule.command("list")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many.")
@click.option("--cursor", help="Go on where the last page ended.")
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
        for one in page:
            click.echo(to_json(one))
    elif page.items:
        rows = [
            (
                one.schedule_id,
                one.kind,
                one.cron,
                one.time_zone,
                one.catch_up,
                "paused" if one.paused else render.instant(one.next_at),
            )
            for one in page
        ]
        table(("schedule", "agent", "cron", "time zone", "missed", "next"), rows, as_json=False)
    else:
        click.echo("no schedules; an application declares them with @hf.schedule", err=True)
    if page.next is not None:
        click.echo(f"more: --cursor {page.next}", err=True)


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@store_option
def pause(schedule_id: str, where: str) -> None:
    """It does not fire until it is resumed.

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
    """It fires again, from its next instant on; what came during the pause is left out.

    Example: holdfast schedule resume report
    """

    async def work() -> Schedule:
        async with client_at(where) as client:
            return await client.resume_schedule(schedule_id)

    one = wait_for(work())
    click.echo(f"{plain(one.schedule_id)} fires next at {render.instant(one.next_at)}", err=True)


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@store_option
def remove(schedule_id: str, where: str) -> None:
    """There is no such schedule any more; its jobs stay. An application that declares it brings it back.

    Example: holdfast schedule remove report
    """

    async def work() -> Schedule:
        async with client_at(where) as client:
            return await client.remove_schedule(schedule_id)

    click.echo(f"{plain(wait_for(work()).schedule_id)} is removed", err=True)
