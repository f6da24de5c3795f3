"""Port for registry entries: the store or NATS implements it, and the registry works over either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.agent_registry import AgentEntry, RegistryHealth, StoredEntry


class EntryStore(Protocol):
    """Entries with revisions. An unavailable backend raises Unavailable, except in `list`, which returns the last known
    entries; `health` tells the difference."""

    async def get(self, guid: str) -> StoredEntry | None:
        """The current entry."""
        ...

    async def put(self, entry: AgentEntry, *, over: int) -> StoredEntry | None:
        """Write the entry conditionally on the revision it was made from; `over` 0: there was none. None if another
        writer was first; then nothing changed."""
        ...

    async def remove(self, guid: str, *, over: int) -> bool:
        """Remove the entry of this revision; returns whether it was there."""
        ...

    async def list(self) -> Sequence[StoredEntry]:
        """Every valid entry, in no order."""
        ...

    def health(self) -> RegistryHealth: ...

    async def close(self) -> None:
        """Release all resources."""
        ...
