"""Response cache in memory."""

from __future__ import annotations

from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.memory.state import MemoryState
from holdfast.store.ports.cache import CacheCounts, CachedResponse, check_entry


class MemoryCache:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def get(self, key: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> CachedResponse | None:
        entry = self._state.tables.cache.get((namespace, key))
        return entry if entry is not None and entry.expires_at > self._state.clock.wall_us() else None

    async def put(self, key: bytes, body: bytes, *, ttl_us: int, namespace: str = DEFAULT_NAMESPACE) -> None:
        check_entry(key, body, ttl_us)
        with self._state.transaction() as work:
            work.need_namespace(namespace)
            work.tables.cache[namespace, key] = CachedResponse(bytes(body), work.wall, work.wall + ttl_us)

    async def drop(self, key: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        with self._state.transaction() as work:
            return work.tables.cache.pop((namespace, key), None) is not None

    async def drop_expired(self, limit: int = 1000) -> int:
        with self._state.transaction() as work:
            expired = [place for place, entry in work.tables.cache.items() if entry.expires_at <= work.wall]
            expired.sort(key=lambda place: work.tables.cache[place].expires_at)
            for place in expired[: max(limit, 0)]:
                del work.tables.cache[place]
            return len(expired[: max(limit, 0)])

    async def counts(self, namespace: str = DEFAULT_NAMESPACE) -> CacheCounts:
        now = self._state.clock.wall_us()
        entries = [entry for (owner, _), entry in self._state.tables.cache.items() if owner == namespace]
        expired = sum(entry.expires_at <= now for entry in entries)
        return CacheCounts(len(entries), expired, sum(len(entry.body) for entry in entries))
