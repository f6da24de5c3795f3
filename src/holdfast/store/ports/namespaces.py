"""Namespaces: the tenants of one store."""

from __future__ import annotations

from typing import Protocol

import msgspec


class NamespaceRecord(msgspec.Struct, frozen=True):
    namespace: str
    created_at: int


class Namespaces(Protocol):
    """The namespace `default` always exists."""

    async def create(self, namespace: str) -> bool:
        """Create the namespace if it does not exist; returns whether it was created."""
        ...

    async def list(self) -> list[NamespaceRecord]:
        """All namespaces, by name."""
        ...
