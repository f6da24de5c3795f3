"""A place for entries: the store, or NATS. The registry is the same over either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.agent_registry import AgentEntry, RegistryHealth, Seen


class EntryStore(Protocol):
    """Entries with revisions. What cannot be reached raises Unavailable, except for `list`, which says what it last
    knew; `health` tells the difference."""

    async def get(self, guid: str) -> Seen | None:
        """The entry as it is now."""
        ...

    async def put(self, entry: AgentEntry, *, over: int) -> Seen | None:
        """The entry is there in place of the revision it was made from; `over` 0: there was none. None, and nothing
        changed: somebody else was there first."""
        ...

    async def remove(self, guid: str, *, over: int) -> bool:
        """The entry of this revision is not there any more; says whether it was."""
        ...

    async def list(self) -> Sequence[Seen]:
        """Every entry that says something sensible, in no order."""
        ...

    def health(self) -> RegistryHealth: ...

    async def close(self) -> None:
        """Nothing is held open."""
        ...
