"""The store that a command is about, opened for it and closed after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.client.embedded import EmbeddedClient
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
async def client_at(where: str) -> AsyncIterator[EmbeddedClient]:
    """A client over the store at this address, which must exist."""
    store = await existing(where)
    try:
        yield EmbeddedClient(store, SystemClock(), RandomIds())
    finally:
        await store.close()
