"""Registry entries of external agents, each with a revision, in memory."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.agent_registry import AgentEntry, StoredEntry, check_entry, write_entry
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.memory.state import MemoryState


class MemoryEntries:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def get(self, guid: str, *, namespace: str = DEFAULT_NAMESPACE) -> StoredEntry | None:
        return self._state.tables.entries.get((namespace, guid))

    async def put(
        self, entry: AgentEntry, *, over: int, namespace: str = DEFAULT_NAMESPACE
    ) -> StoredEntry | None:
        write_entry(check_entry(entry))
        copy = msgspec.structs.replace(entry, metadata=dict(entry.metadata))
        with self._state.transaction() as work:
            work.need_namespace(namespace)
            before = work.tables.entries.get((namespace, entry.guid))
            if over != (0 if before is None else before.revision):
                return None
            revision = over + 1 if over else work.wall
            seen = StoredEntry(entry=copy, revision=revision, heard_at=work.wall)
            work.tables.entries[namespace, entry.guid] = seen
            return seen

    async def remove(self, guid: str, *, over: int, namespace: str = DEFAULT_NAMESPACE) -> bool:
        with self._state.transaction() as work:
            before = work.tables.entries.get((namespace, guid))
            if before is None or before.revision != over:
                return False
            del work.tables.entries[namespace, guid]
            return True

    async def list(self, *, namespace: str = DEFAULT_NAMESPACE) -> Sequence[StoredEntry]:
        return [seen for (owner, _), seen in self._state.tables.entries.items() if owner == namespace]
