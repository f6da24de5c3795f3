"""Registry entries of external agents, each with a revision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.agent_registry import AgentEntry, StoredEntry
from holdfast.model.jobs import DEFAULT_NAMESPACE


class AgentEntries(Protocol):
    """Times are store time: writing an entry records this instant as its heartbeat."""

    async def get(self, guid: str, *, namespace: str = DEFAULT_NAMESPACE) -> StoredEntry | None:
        """The entry as it is now."""
        ...

    async def put(
        self, entry: AgentEntry, *, over: int, namespace: str = DEFAULT_NAMESPACE
    ) -> StoredEntry | None:
        """Replace the entry of revision `over` by this one; `over` 0 adds a new entry. None, and nothing changed: the
        stored revision is another one."""
        ...

    async def remove(self, guid: str, *, over: int, namespace: str = DEFAULT_NAMESPACE) -> bool:
        """Remove the entry if it still has revision `over`; returns whether it was removed."""
        ...

    async def list(self, *, namespace: str = DEFAULT_NAMESPACE) -> Sequence[StoredEntry]:
        """Every entry, in no order."""
        ...
