"""Blobs: bytes stored once under their SHA-256."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.jobs import DEFAULT_NAMESPACE


class Blobs(Protocol):
    async def put(self, body: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> str:
        """Store the bytes and return their hex digest. Raises TooLarge beyond the limit."""
        ...

    async def get(self, digest: str, *, namespace: str = DEFAULT_NAMESPACE) -> bytes:
        """The bytes, checked against their digest. Raises NotFound, or StoreCorrupt if they do not match it."""
        ...

    async def has(self, digest: str, *, namespace: str = DEFAULT_NAMESPACE) -> bool: ...
