"""`holdfast queue`: admission control, the limits of queues."""

from __future__ import annotations

import click

from holdfast.cli.open_store import client_at
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import plain, table, wait_for
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.time import parse_duration, show_duration


@click.group()
def queue() -> None:
    """Show and set queue limits. A queue without limits accepts every job.

    Example: holdfast queue limit default --depth 10000 --age 5m
    """


@queue.command()
@click.argument("name", metavar="QUEUE")
@click.option("--depth", type=click.IntRange(min=0), help="Most pending jobs.")
@click.option("--age", metavar="TIME", help="Longest wait of the oldest ready job: 30s, 5m.")
@store_option
def limit(name: str, depth: int | None, age: str | None, where: str) -> None:
    """Set the limits of a queue; without options, remove them.

    A submission beyond a limit is rejected with a time to retry, and is not stored. Jobs already in the queue stay.

    Example: holdfast queue limit default --depth 10000 --age 5m
    """
    age_max_us = None if age is None else parse_duration(age)

    async def work() -> None:
        async with client_at(where) as client:
            await client.limit_queue(name, depth_max=depth, age_max_us=age_max_us)

    wait_for(work())
    free = depth is None and age is None
    click.echo(f"queue {plain(name)}: {'limits removed' if free else 'limits set'}", err=True)


@queue.command("list")
@store_option
@json_option
def list_(where: str, *, as_json: bool) -> None:
    """List the queues that have limits.

    Example: holdfast queue list
    """

    async def look() -> tuple[QueueLimits, ...]:
        async with client_at(where) as client:
            return await client.list_queues()

    rows = [
        (
            limits.queue,
            limits.depth_max if as_json or limits.depth_max is not None else "any",
            limits.age_max_us
            if as_json
            else ("any" if limits.age_max_us is None else show_duration(limits.age_max_us)),
        )
        for limits in wait_for(look())
    ]
    if rows:
        table(("queue", "depth_max", "age_max_us" if as_json else "age_max"), rows, as_json=as_json)
    else:
        click.echo("no queue has limits. Set one: holdfast queue limit QUEUE --depth 10000", err=True)
