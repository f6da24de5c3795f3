"""Registry entries in the store: the default, without another service."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.agent_registry import AgentEntry, RegistryHealth, StoredEntry
from holdfast.store.contract import Store


class StoreEntries:
    """See `holdfast.registry.port.EntryStore`. The owner of the store closes it."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._entries = store.entries
        self._namespace = namespace

    async def get(self, guid: str) -> StoredEntry | None:
        return await self._entries.get(guid, namespace=self._namespace)

    async def put(self, entry: AgentEntry, *, over: int) -> StoredEntry | None:
        return await self._entries.put(entry, over=over, namespace=self._namespace)

    async def remove(self, guid: str, *, over: int) -> bool:
        return await self._entries.remove(guid, over=over, namespace=self._namespace)

    async def list(self) -> Sequence[StoredEntry]:
        return await self._entries.list(namespace=self._namespace)

    def health(self) -> RegistryHealth:
        return RegistryHealth(source="store")

    async def close(self) -> None: ...
