"""The store that a command is about, opened for it and closed after it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click
from click.core import ParameterSource

from holdfast.client.embedded import EmbeddedClient
from holdfast.client.protocol import Client
from holdfast.client.remote import RemoteClient
from holdfast.errors import NotFound
from holdfast.model.ids import RandomIds
from holdfast.runtime import open_store
from holdfast.store import address
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store


async def existing(where: str, *, migrating: bool = False) -> Store:
    """The store at this address; unlike a worker, these commands do not make one by looking."""
    place = address.parse(where)
    if place.kind == "sqlite" and not place.path.is_file():
        msg = f"there is no store at {where}"
        raise NotFound(msg, hint="Check --store and HOLDFAST_STORE; `holdfast db migrate` makes a new one.")
    return await open_store(where, migrating=migrating)


@asynccontextmanager
async def client_at(where: str) -> AsyncIterator[Client]:
    """A client over the store at this address, which must exist; or of the server that HOLDFAST_API_URL names.

    A store that was named on the command line is meant, whatever the environment says.
    """
    url = server_url()
    if url:
        async with RemoteClient(url) as remote:
            yield remote
        return
    store = await existing(where)
    try:
        yield EmbeddedClient(store, SystemClock(), RandomIds())
    finally:
        await store.close()


def server_url() -> str:
    """The server that is meant; empty, if it is a store."""
    return "" if _is_typed("where") else os.environ.get("HOLDFAST_API_URL", "")


def _is_typed(parameter: str) -> bool:
    """Whether the parameter stands on the command line."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE
