"""Store metadata in memory: JSON values by key."""

from __future__ import annotations

from typing import Any

from holdfast.model import canonical
from holdfast.store.memory.state import MemoryState
from holdfast.store.ports.metadata import MetadataEntry, encode_metadata


class MemoryMetadata:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def get(self, key: str) -> MetadataEntry | None:
        entry = self._state.tables.metadata.get(key)
        return None if entry is None else MetadataEntry(canonical.decode(entry.value), entry.updated_at)

    async def put(self, key: str, value: Any) -> None:
        encoded = encode_metadata(key, value)
        with self._state.transaction() as work:
            work.tables.metadata[key] = MetadataEntry(encoded, work.wall)
