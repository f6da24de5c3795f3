"""`holdfast namespace`: tenants of one store."""

from __future__ import annotations

import click

from holdfast.cli import render
from holdfast.cli.open_store import client_at
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import plain, show, table, wait_for
from holdfast.store.ports.namespaces import NamespaceRecord


@click.group()
def namespace() -> None:
    """Manage namespaces (tenants). Each has its own jobs, agents and keys; `default` always exists.

    Example: holdfast namespace create tests
    """


@namespace.command()
@click.argument("name")
@store_option
@json_option
def create(name: str, where: str, *, as_json: bool) -> None:
    """Create a namespace. Repeating the command changes nothing.

    Example: holdfast namespace create tests
    """

    async def work() -> NamespaceRecord:
        async with client_at(where, making=True) as client:
            return await client.create_namespace(name)

    record = wait_for(work())
    if as_json:
        show(record, as_json=True)
    else:
        click.echo(f"namespace {plain(record.namespace)} exists", err=True)


@namespace.command("list")
@store_option
@json_option
def list_(where: str, *, as_json: bool) -> None:
    """List namespaces by name.

    Example: holdfast namespace list
    """

    async def look() -> tuple[NamespaceRecord, ...]:
        async with client_at(where) as client:
            return await client.list_namespaces()

    records = wait_for(look())
    if as_json:
        for record in records:
            show(record, as_json=True)
        return
    rows = [(record.namespace, render.instant(record.created_at)) for record in records]
    table(("namespace", "created"), rows, as_json=False)
