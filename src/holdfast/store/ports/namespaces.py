"""Namespaces: the walls between tenants of one store."""

from __future__ import annotations

from typing import Protocol

import msgspec


class NamespaceRecord(msgspec.Struct, frozen=True):
    namespace: str
    created_at: int


class Namespaces(Protocol):
    """`default` always exists."""

    async def create(self, namespace: str) -> bool:
        """The namespace exists; True if it did not before."""
        ...

    async def list(self) -> list[NamespaceRecord]:
        """All of them, by name."""
        ...
