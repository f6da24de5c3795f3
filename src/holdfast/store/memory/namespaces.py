"""Namespaces in memory."""

from __future__ import annotations

from holdfast.model.ids import check_name
from holdfast.store.memory.state import MemoryState
from holdfast.store.ports.namespaces import NamespaceRecord


class MemoryNamespaces:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def create(self, namespace: str) -> bool:
        check_name(namespace, "namespace")
        with self._state.transaction() as work:
            if namespace in work.tables.namespaces:
                return False
            work.tables.namespaces[namespace] = work.wall
            return True

    async def list(self) -> list[NamespaceRecord]:
        return [NamespaceRecord(name, at) for name, at in sorted(self._state.tables.namespaces.items())]
