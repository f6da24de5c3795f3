"""`holdfast schedule`: what begins by the clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from holdfast.cli import screens
from holdfast.cli.opened import existing
from holdfast.cli.options import json_option, store_option
from holdfast.cli.talk import plain, table, to_json, wait_for
from holdfast.engine.schedules import resume as resume_schedule
from holdfast.errors import NotFound
from holdfast.model.page import Page
from holdfast.model.schedule import Schedule
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store


@click.group()
def schedule() -> None:
    """Schedules: agents that begin by the clock. An application declares them with `@hf.schedule`.

    Example: holdfast schedule list
    """


@asynccontextmanager
async def _store_at(where: str) -> AsyncIterator[Store]:
    store = await existing(where)
    try:
        yield store
    finally:
        await store.close()


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
        async with _store_at(where) as store:
            return await store.schedules.list(limit=limit, cursor=cursor)

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
                "paused" if one.paused else screens.instant(one.next_at),
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
        async with _store_at(where) as store:
            return await store.schedules.pause(schedule_id)

    click.echo(f"{plain(wait_for(work()).schedule_id)} is paused", err=True)


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@store_option
def resume(schedule_id: str, where: str) -> None:
    """It fires again, from its next instant on; what came during the pause is left out.

    Example: holdfast schedule resume report
    """

    async def work() -> Schedule:
        async with _store_at(where) as store:
            return await resume_schedule(store, SystemClock(), schedule_id)

    one = wait_for(work())
    click.echo(f"{plain(one.schedule_id)} fires next at {screens.instant(one.next_at)}", err=True)


@schedule.command()
@click.argument("schedule_id", metavar="ID")
@store_option
def remove(schedule_id: str, where: str) -> None:
    """There is no such schedule any more; its jobs stay. An application that declares it brings it back.

    Example: holdfast schedule remove report
    """

    async def work() -> bool:
        async with _store_at(where) as store:
            return await store.schedules.remove(schedule_id)

    if not wait_for(work()):
        msg = f"there is no schedule {schedule_id!r}"
        raise NotFound(msg, hint="`holdfast schedule list` shows what is there.")
    click.echo(f"{plain(schedule_id)} is removed", err=True)
