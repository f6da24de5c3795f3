"""Entries of agents that live elsewhere, each with a revision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.agent_registry import AgentEntry, Seen
from holdfast.model.jobs import DEFAULT_NAMESPACE


class AgentEntries(Protocol):
    """Time is the store's: whoever is written was heard just now."""

    async def get(self, guid: str, *, namespace: str = DEFAULT_NAMESPACE) -> Seen | None:
        """The entry as it is now."""
        ...

    async def put(self, entry: AgentEntry, *, over: int, namespace: str = DEFAULT_NAMESPACE) -> Seen | None:
        """The entry is there in place of the revision it was made from; `over` 0: there was none. None, and nothing
        changed: somebody else was there first."""
        ...

    async def remove(self, guid: str, *, over: int, namespace: str = DEFAULT_NAMESPACE) -> bool:
        """The entry of this revision is not there any more; says whether it was."""
        ...

    async def list(self, *, namespace: str = DEFAULT_NAMESPACE) -> Sequence[Seen]:
        """Every entry, in no order."""
        ...
