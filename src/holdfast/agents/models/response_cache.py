"""Answers kept for the next who asks the same: off unless somebody asks for it, and only to save money.

Two jobs that ask a model the very same question may both be given the answer that the first one bought. What a job
itself was answered is in its journal, with or without this.
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
    """How often it helped, in this process."""

    hits: int = 0
    misses: int = 0


class Cache:
    """Answers are kept under this name for so long. Whoever shares the name and the store shares them."""

    def __init__(self, name: str, *, lifetime: Duration = "1d") -> None:
        self.name = check_name(name, "cache name")
        self.lifetime_us = parse_duration(lifetime)
        self.stats = CacheStats()

    async def find(self, store: Store, namespace: str, request: Request) -> Any:
        """The answer to this very question, if somebody has had it and it is not too old; None, if not."""
        found = await store.cache.get(self._key(request), namespace=namespace)
        if found is None:
            self.stats.misses += 1
            return None
        self.stats.hits += 1
        return canonical.decode(found.body, bytes_max=RESULT_BYTES_MAX)

    async def keep(self, store: Store, namespace: str, request: Request, response: Any) -> None:
        """The answer is there for the next."""
        body = canonical.encode(response)
        await store.cache.put(self._key(request), body, ttl_us=self.lifetime_us, namespace=namespace)

    def _key(self, request: Request) -> bytes:
        parts = [canonical.hex_digest(part) for part in (request.identity, *request.messages)]
        return canonical.digest_of(["llm", self.name, request.name, request.model, request.after, parts])
