"""Response cache: responses of models, stored for reuse. Any entry may be missing at any time.

Facts about the store itself are in `ports.metadata`.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.errors import InvalidPayload, TooLarge
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.limits import BLOB_BYTES_MAX, DURATION_US_MAX

KEY_BYTES = 32


class CachedResponse(msgspec.Struct, frozen=True):
    """A response, when it was stored, and when it expires."""

    body: bytes
    created_at: int
    expires_at: int


class CacheCounts(msgspec.Struct, frozen=True):
    """The size of a namespace's cache; `expired` entries are among the `entries`."""

    entries: int
    expired: int
    body_bytes: int


class ResponseCache(Protocol):
    """Keys are SHA-256 digests of requests."""

    async def get(self, key: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> CachedResponse | None:
        """The response; None if there is none or it has expired."""
        ...

    async def put(self, key: bytes, body: bytes, *, ttl_us: int, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Store the response for `ttl_us` from now, in place of any other under this key.

        Raises TooLarge beyond the limit of a blob, and InvalidPayload for a key that is no digest or a `ttl_us` that is
        not from 1 microsecond to a century.
        """
        ...

    async def drop(self, key: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        """Remove the response under this key; returns whether there was one."""
        ...

    async def drop_expired(self, limit: int = 1000) -> int:
        """Remove expired responses of all namespaces, oldest first, at most `limit`; returns how many."""
        ...

    async def counts(self, namespace: str = DEFAULT_NAMESPACE) -> CacheCounts: ...


def check_entry(key: bytes, body: bytes, ttl_us: int) -> None:
    """Raise an error that says what to change, if the entry cannot be stored."""
    if len(key) != KEY_BYTES:
        msg = f"a cache key has {KEY_BYTES} bytes, not {len(key)}"
        raise InvalidPayload(msg, hint="Pass hashlib.sha256(question).digest().")
    if len(body) > BLOB_BYTES_MAX:
        msg = f"{len(body):,} bytes are more than the limit of {BLOB_BYTES_MAX:,}"
        raise TooLarge(msg, hint="Do not cache an answer of this size.")
    if not 1 <= ttl_us <= DURATION_US_MAX:
        msg = f"an answer cannot be kept for {ttl_us} microseconds"
        raise InvalidPayload(msg, hint="Keep it for at least a microsecond and at most a century.")
