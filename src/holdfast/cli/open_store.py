"""Open store: opens the store of a command, and closes it after it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click
from click.core import ParameterSource

from holdfast.client.client import Client
from holdfast.client.http import RemoteClient
from holdfast.client.in_process import EmbeddedClient
from holdfast.errors import NotFound
from holdfast.model.ids import RandomIds
from holdfast.model.redaction import redact
from holdfast.runtime import open_store
from holdfast.runtime.app import App
from holdfast.store import address
from holdfast.store.contract import Store


async def existing(where: str, *, migrating: bool = False) -> Store:
    """The store at this address. Unlike a worker, these commands do not create one."""
    place = address.parse(where)
    if place.kind == "sqlite" and not place.path.is_file():
        msg = f"there is no store at {where}"
        raise NotFound(msg, hint="Check --store and HOLDFAST_STORE, or create a store: holdfast db migrate")
    return await open_store(where, migrating=migrating)


def store_for(app: App, where: str) -> str:
    """The store for a command that runs this application: the option, else HOLDFAST_STORE, else the one that the
    application declares, else the default."""
    declared = app.declared_store
    if declared is None:
        return where
    if not is_store_named():
        return declared
    if address.parse(declared) != address.parse(where):
        name = "--store" if _is_typed("where") else "HOLDFAST_STORE"
        click.echo(
            f"{name} is used: {redact(where)}. The App declares another store, which is ignored.", err=True
        )
    return where


def is_store_named() -> bool:
    """Whether the command line or the environment names the store."""
    context = click.get_current_context(silent=True)
    sources = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    return context is not None and context.get_parameter_source("where") in sources


def server() -> str:
    """The server that HOLDFAST_API_URL names; empty if the command line names a store, which takes precedence."""
    return "" if _is_typed("where") else os.environ.get("HOLDFAST_API_URL", "")


@asynccontextmanager
async def client_at(where: str, *, making: bool = False) -> AsyncIterator[Client]:
    """A client over the store at this address, which must exist, unless `making` is set; or of the server that
    HOLDFAST_API_URL names."""
    url = server()
    if url:
        async with RemoteClient(url) as remote:
            yield remote
        return
    store = await (open_store(where) if making else existing(where))
    try:
        yield EmbeddedClient(store, store.clock, RandomIds())
    finally:
        await store.close()


def _is_typed(parameter: str) -> bool:
    """Whether the parameter is on the command line."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE
