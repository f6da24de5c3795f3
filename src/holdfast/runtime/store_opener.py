"""Store opener: opens a store by its address."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.errors import InvalidSetting
from holdfast.model.ids import IdSource, RandomIds
from holdfast.runtime.log_redaction import install_redaction
from holdfast.store import address
from holdfast.store.clock import Clock, SystemClock
from holdfast.store.contract import Store

if TYPE_CHECKING:
    from holdfast.store.encryption import Codec

PAYLOAD_KEYS: Final = "HOLDFAST_PAYLOAD_KEYS"


async def open_store(
    where: str = address.DEFAULT,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    migrating: bool = True,
) -> Store:
    """Opens the store at this address, after the redaction rules are set. Imports only the driver of this database,
    and encryption only where there are keys."""
    install_redaction(where)
    place, codec = address.parse(where), _load_codec()
    ids = RandomIds() if ids is None else ids
    if place.kind == "memory":
        from holdfast.store.memory.store import MemoryStore

        return MemoryStore(SystemClock() if clock is None else clock, ids)
    if place.kind == "sqlite":
        from holdfast.store.sqlite.open import open_sqlite

        return await open_sqlite(
            place.path,
            clock=SystemClock() if clock is None else clock,
            ids=ids,
            migrating=migrating,
            codec=codec,
        )
    try:
        from holdfast.store.postgres.open import open_postgres
    except ImportError as error:
        msg = "the Postgres driver is not installed"
        raise InvalidSetting(msg, hint="pip install 'holdfast[postgres]'") from error
    return await open_postgres(place.where, clock=clock, ids=ids, migrating=migrating, codec=codec)


def _load_codec() -> Codec | None:
    """The codec that encrypts payloads, if HOLDFAST_PAYLOAD_KEYS names keys."""
    where = os.environ.get(PAYLOAD_KEYS, "")
    if not where:
        return None
    from holdfast.store.encryption import read_keys

    return read_keys(Path(where))
