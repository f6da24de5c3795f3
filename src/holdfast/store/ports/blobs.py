"""Blobs: bytes stored once under their SHA-256."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.jobs import DEFAULT_NAMESPACE


class Blobs(Protocol):
    async def put(self, body: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> str:
        """The bytes are durable under the returned hex digest. Raises TooLarge beyond the limit."""
        ...

    async def get(self, digest: str, *, namespace: str = DEFAULT_NAMESPACE) -> bytes:
        """The bytes, checked against their digest; NotFound, or StoreCorrupt if they do not fit it."""
        ...

    async def has(self, digest: str, *, namespace: str = DEFAULT_NAMESPACE) -> bool: ...
