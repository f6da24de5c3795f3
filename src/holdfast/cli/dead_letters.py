"""`holdfast dead`: work that used up its attempts, kept whole."""

from __future__ import annotations

import click

from holdfast.api.job_records import Need
from holdfast.cli import render
from holdfast.cli.decisions import said
from holdfast.cli.open_store import client_at
from holdfast.cli.options import by_option, json_option, operation_option, store_option
from holdfast.cli.output import to_json, wait_for
from holdfast.model.page import Page


@click.group()
def dead() -> None:
    """Dead letters: work that used up its attempts. It is held, not lost.

    Example: holdfast dead list
    """


@dead.command("list")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many.")
@click.option("--cursor", help="Go on where the last page ended.")
@store_option
@json_option
def list_(where: str, *, limit: int, cursor: str | None, as_json: bool) -> None:
    """List dead letters with their causes, newest first.

    Example: holdfast dead list --json
    """

    async def look() -> Page[Need]:
        async with client_at(where) as client:
            return await client.dead_letters(limit=limit, cursor=cursor)

    page = wait_for(look())
    console = render.console()
    for need in page:
        if as_json:
            click.echo(to_json(need))
            continue
        since = render.text(render.instant(need.since), "dim")
        console.print(render.joined(render.text(need.job_id, "bold"), need.job_kind, since), soft_wrap=True)
        console.print(render.indented(render.text(need.what, "red")), soft_wrap=True)
    if not page.items:
        click.echo("no dead letters", err=True)
    elif not as_json:
        click.echo("holdfast dead requeue ID tries one again; holdfast dead discard ID ends it", err=True)
    if page.next is not None:
        click.echo(f"more: --cursor {page.next}", err=True)


@dead.command()
@click.argument("job_id", metavar="ID")
@click.option("--why", default="", help="What is different now; for the journal.")
@by_option
@operation_option
@store_option
@json_option
def requeue(job_id: str, where: str, *, why: str, by: str, operation_id: str | None, as_json: bool) -> None:
    """Try a dead letter again: the same job, journal and keys, with attempts counted from nothing.

    Example: holdfast dead requeue job_06h57w4p2ksb3f1cqn8xv0zt6e --why 'the shop is up again'
    """
    done = "it will be tried again, with attempts counted from nothing"
    said(
        where,
        lambda client: client.requeue(job_id, why=why, by=by, operation_id=operation_id),
        done=done,
        sent=done,
        as_json=as_json,
    )


@dead.command()
@click.argument("job_id", metavar="ID")
@click.option("--why", required=True, help="Why it may end; for the journal.")
@by_option
@operation_option
@store_option
@json_option
def discard(job_id: str, where: str, *, why: str, by: str, operation_id: str | None, as_json: bool) -> None:
    """End a dead letter. Its journal stays.

    Example: holdfast dead discard job_06h57w4p2ksb3f1cqn8xv0zt6e --why 'the order was withdrawn'
    """
    said(
        where,
        lambda client: client.discard(job_id, why=why, by=by, operation_id=operation_id),
        done="discarded: it is cancelled",
        sent="asked: the next worker that takes it ends it",
        as_json=as_json,
    )
