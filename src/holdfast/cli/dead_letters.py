"""`holdfast dead`: the dead-letter queue."""

from __future__ import annotations

import click

from holdfast.api.job_records import Need
from holdfast.cli import render
from holdfast.cli.decisions import send_command
from holdfast.cli.open_store import client_at
from holdfast.cli.options import by_option, json_option, operation_option, store_option
from holdfast.cli.output import to_json, wait_for
from holdfast.model.page import Page


@click.group()
def dead() -> None:
    """Dead-letter queue: jobs that failed all their attempts. They are kept until a person decides.

    Example: holdfast dead list
    """


@dead.command("list")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="Most rows to show."
)
@click.option("--cursor", help="Continue after the last page.")
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
        console.print(
            render.join_parts(render.text(need.job_id, "bold"), need.job_kind, since), soft_wrap=True
        )
        console.print(render.indent(render.text(need.what, "red")), soft_wrap=True)
    if not page.items:
        click.echo("no dead letters", err=True)
    elif not as_json:
        click.echo(
            "Try one again: holdfast dead requeue ID. Cancel one: holdfast dead discard ID --why …", err=True
        )
    if page.next is not None:
        click.echo(f"more: --cursor {page.next}", err=True)


@dead.command()
@click.argument("job_id", metavar="ID")
@click.option("--why", default="", help="What has changed; written to the journal.")
@by_option
@operation_option
@store_option
@json_option
def requeue(job_id: str, where: str, *, why: str, by: str, operation_id: str | None, as_json: bool) -> None:
    """Try a dead letter again: the same job, journal and idempotency keys. Attempts count from zero.

    Example: holdfast dead requeue job_06h57w4p2ksb3f1cqn8xv0zt6e --why 'the shop is up again'
    """
    done = "requeued: the job is tried again, its attempts count from zero"
    send_command(
        where,
        lambda client: client.requeue(job_id, why=why, by=by, operation_id=operation_id),
        done=done,
        sent=done,
        as_json=as_json,
    )


@dead.command()
@click.argument("job_id", metavar="ID")
@click.option("--why", required=True, help="The reason; written to the journal.")
@by_option
@operation_option
@store_option
@json_option
def discard(job_id: str, where: str, *, why: str, by: str, operation_id: str | None, as_json: bool) -> None:
    """Cancel a dead letter. Its journal is kept.

    Example: holdfast dead discard job_06h57w4p2ksb3f1cqn8xv0zt6e --why 'the order was withdrawn'
    """
    send_command(
        where,
        lambda client: client.discard(job_id, why=why, by=by, operation_id=operation_id),
        done="discarded: the job is cancelled",
        sent="requested: the next worker that claims the job cancels it",
        as_json=as_json,
    )
