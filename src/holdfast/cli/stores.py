"""The store that a command works on."""

from __future__ import annotations

from holdfast.errors import NotFound
from holdfast.runtime import open_store
from holdfast.store import address
from holdfast.store.contract import Store


async def existing(where: str, *, migrating: bool = False) -> Store:
    """The store at this address; unlike a worker, these commands do not make one by looking."""
    place = address.parse(where)
    if place.kind == "sqlite" and not place.path.is_file():
        msg = f"there is no store at {where}"
        raise NotFound(msg, hint="Check --store and HOLDFAST_STORE; `holdfast db migrate` makes a new one.")
    return await open_store(where, migrating=migrating)
