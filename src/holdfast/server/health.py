"""Health check: `/health` and `/health/ready` perform a real write, at most once every 2 s for all clients."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from typing import Final

from holdfast.errors import HoldfastError, SchemaMismatch, Unavailable
from holdfast.model.time import SECOND
from holdfast.store.address import parse
from holdfast.store.clock import Clock
from holdfast.store.contract import Store, StoreInfo
from holdfast.store.sql.migrate import SCHEMA_VERSION

PROBE_EVERY_US: Final = 2 * SECOND
PROBE_TIMEOUT_S: Final = 5.0
FREE_WARNING: Final = 0.15
FREE_CRITICAL: Final = 0.05
PROBE: Final = "health_probe"


class Pulse:
    """Health probe. `free` returns the free share of the store's disk, from 0 to 1; None if it is unknown."""

    def __init__(
        self, store: Store, clock: Clock, free: Callable[[StoreInfo], float | None] | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._free = free_of if free is None else free
        self._written_at: int | None = None

    async def feel(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The problems that make the server unhealthy, as codes; and those that are only warnings."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                info = await self._store.info()
                await self._write()
        except TimeoutError:
            return (Unavailable.code,), ()
        except HoldfastError as error:
            return (error.code,), ()
        if info.min_reader > SCHEMA_VERSION:
            return (SchemaMismatch.code,), ()  # a newer version has migrated the store
        free = self._free(info)
        if free is None or free >= FREE_WARNING:
            return (), ()
        return (("disk",), ()) if free < FREE_CRITICAL else ((), ("disk",))

    async def _write(self) -> None:
        """Performs a write, unless one succeeded in the last 2 s."""
        now = self._clock.tick_us()
        if self._written_at is None or now - self._written_at >= PROBE_EVERY_US:
            await self._store.metadata.put(PROBE, True)
            self._written_at = now


def free_of(info: StoreInfo) -> float | None:
    """The free share of the disk under a SQLite file."""
    place = parse(info.address)
    if place.kind != "sqlite":
        return None
    usage = shutil.disk_usage(place.path.parent)
    return usage.free / usage.total
