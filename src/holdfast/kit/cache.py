"""Response cache of the kit: model responses that were paid for once.

The key is the whole request: operation, model, prompt, task and work item, byte for byte. The cache saves money and
guarantees nothing; a call that must not happen twice belongs in the ledger. While one thread requests a response, other
threads of this process with the same request wait for it instead of sending their own.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.kit.blocking_portal import Database, need_db
from holdfast.model import canonical
from holdfast.model.limits import BLOB_BYTES_MAX
from holdfast.model.time import SECOND

WEEK_S: Final = 7 * 24 * 3600


class LLMOutputCache:
    """Model responses by request, for a week by default."""

    def __init__(
        self,
        store: Database | None = None,
        expires_in_seconds: float = WEEK_S,
        *,
        conn: Database | None = None,
        db_path: str | Path | None = None,
    ) -> None:
        self.db = need_db(store if store is not None else conn, db_path)
        self.expires_in_seconds = expires_in_seconds
        self._flights = self.db.flights
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    def get_or_generate(
        self,
        operation_type: str,
        prompt: Any,
        model: str,
        generate_fn: Callable[[], Any],
        task_id: str | None = None,
        work_item_id: str | None = None,
        expires_in_seconds: float | None = None,
    ) -> Any:
        """Return the stored response, or a new one from `generate_fn`, which is then stored. Its errors reach the
        caller."""
        key = self._key(operation_type, prompt, model, task_id, work_item_id)
        found = self._find_stored(key)
        if found is not None:
            return canonical.decode_stored(found)
        self._flights.enter(key)
        try:
            found = self._find_stored(key)
            if found is not None:
                return canonical.decode_stored(found)
            answer = canonical.encode(generate_fn(), bytes_max=BLOB_BYTES_MAX)
            seconds = self.expires_in_seconds if expires_in_seconds is None else expires_in_seconds
            self.db.run(self.db.store.cache.put(key, answer, ttl_us=int(seconds * SECOND)))
            with self._lock:
                self._misses += 1
            return canonical.decode_stored(answer)
        finally:
            self._flights.leave(key)

    def invalidate(
        self,
        operation_type: str,
        prompt: Any,
        model: str,
        task_id: str | None = None,
        work_item_id: str | None = None,
    ) -> bool:
        """Remove the stored response; returns whether there was one."""
        key = self._key(operation_type, prompt, model, task_id, work_item_id)
        return self.db.run(self.db.store.cache.drop(key))

    def cleanup_expired(self) -> int:
        """Remove expired responses; returns how many."""
        total = 0
        while dropped := self.db.run(self.db.store.cache.drop_expired()):
            total += dropped
        return total

    def get_stats(self) -> dict[str, Any]:
        """Hits and misses of this object, and what the store holds."""
        with self._lock:
            hits, misses = self._hits, self._misses
        total = hits + misses
        return {
            "cache_hits": hits,
            "cache_misses": misses,
            "hit_rate": hits / total if total else 0.0,
            "total_requests": total,
            "store_stats": msgspec.structs.asdict(self.db.run(self.db.store.cache.counts())),
        }

    def reset_stats(self) -> None:
        with self._lock:
            self._hits = self._misses = 0

    def _find_stored(self, key: bytes) -> bytes | None:
        entry = self.db.look(self.db.store.cache.get(key))
        if entry is None:
            return None
        with self._lock:
            self._hits += 1
        return entry.body

    @staticmethod
    def _key(
        operation_type: str, prompt: Any, model: str, task_id: str | None, work_item_id: str | None
    ) -> bytes:
        request = [operation_type, model, prompt, task_id, work_item_id]
        return hashlib.sha256(canonical.encode(request, bytes_max=BLOB_BYTES_MAX)).digest()
