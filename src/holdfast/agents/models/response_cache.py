"""Response cache: reuses a model's response to an identical request of another job. Off by default; it only saves
money.

Two jobs that send the identical request may both get the response that the first one bought. The responses that a job
itself got are in its journal, with or without this cache.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.engine.model_requests import Request
from holdfast.model import canonical
from holdfast.model.ids import check_name
from holdfast.model.limits import RESULT_BYTES_MAX
from holdfast.model.time import Duration, parse_duration
from holdfast.store.contract import Store


class CacheStats(msgspec.Struct):
    """Hits and misses of this process."""

    hits: int = 0
    misses: int = 0


class Cache:
    """A cache with a name and a lifetime. All clients with the same name and store share it."""

    def __init__(self, name: str, *, lifetime: Duration = "1d") -> None:
        self.name = check_name(name, "cache name")
        self.lifetime_us = parse_duration(lifetime)
        self.stats = CacheStats()

    async def find(self, store: Store, namespace: str, request: Request) -> Any:
        """The cached response to the identical request, if it has not expired; else None."""
        entry = await store.cache.get(self._key(request), namespace=namespace)
        if entry is None:
            self.stats.misses += 1
            return None
        self.stats.hits += 1
        return canonical.decode(entry.body, bytes_max=RESULT_BYTES_MAX)

    async def keep(self, store: Store, namespace: str, request: Request, response: Any) -> None:
        """Stores the response."""
        body = canonical.encode(response)
        await store.cache.put(self._key(request), body, ttl_us=self.lifetime_us, namespace=namespace)

    def _key(self, request: Request) -> bytes:
        parts = [canonical.hex_digest(part) for part in (request.identity, *request.messages)]
        return canonical.digest_of(["llm", self.name, request.name, request.model, request.after, parts])
