"""`holdfast queue`: how much a queue takes before it says no."""

from __future__ import annotations

import click

from holdfast.cli.open_store import client_at
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import plain, table, wait_for
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.time import parse_duration, show_duration


@click.group()
def queue() -> None:
    """Queues: how much they take before they say no. Without limits they take everything.

    Example: holdfast queue limit default --depth 10000 --age 5m
    """


@queue.command()
@click.argument("name", metavar="QUEUE")
@click.option("--depth", type=click.IntRange(min=0), help="So many jobs may be pending.")
@click.option("--age", metavar="TIME", help="None of them may have been ready for longer: 30s, 5m.")
@store_option
def limit(name: str, depth: int | None, age: str | None, where: str) -> None:
    """Set the limits of a queue; without any it takes everything again.

    Whoever submits beyond them is told to come back later, and nothing is kept. What is in stays in.

    Example: holdfast queue limit default --depth 10000 --age 5m
    """
    age_max_us = None if age is None else parse_duration(age)

    async def work() -> None:
        async with client_at(where) as client:
            await client.limit_queue(name, depth_max=depth, age_max_us=age_max_us)

    wait_for(work())
    free = depth is None and age is None
    click.echo(f"{plain(name)} {'takes everything' if free else 'has its limits'}", err=True)


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
            one.queue,
            one.depth_max if as_json or one.depth_max is not None else "any",
            one.age_max_us
            if as_json
            else ("any" if one.age_max_us is None else show_duration(one.age_max_us)),
        )
        for one in wait_for(look())
    ]
    if rows:
        table(("queue", "depth_max", "age_max_us" if as_json else "age_max"), rows, as_json=as_json)
    else:
        click.echo("no queue has limits", err=True)
