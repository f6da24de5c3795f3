"""Response cache: answers of models that were paid for once. Any of them may be gone at any time.

Facts about the store itself are in `ports.metadata`.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.errors import InvalidPayload, TooLarge
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.limits import BLOB_BYTES_MAX, DURATION_US_MAX

KEY_BYTES = 32


class Cached(msgspec.Struct, frozen=True):
    """An answer, when it was stored, and until when it is good."""

    body: bytes
    created_at: int
    expires_at: int


class CacheCounts(msgspec.Struct, frozen=True):
    """What a namespace's cache holds; `expired` entries are among the `entries`."""

    entries: int
    expired: int
    body_bytes: int


class ResponseCache(Protocol):
    """Keys are SHA-256 digests of what was asked."""

    async def get(self, key: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> Cached | None:
        """The answer, unless there is none or its time is over."""
        ...

    async def put(self, key: bytes, body: bytes, *, ttl_us: int, namespace: str = DEFAULT_NAMESPACE) -> None:
        """The answer is stored for `ttl_us` from now, in place of any other under this key.

        Raises TooLarge beyond the limit of a blob, and InvalidPayload for a key that is no digest or a time that is
        not from 1 microsecond to a century.
        """
        ...

    async def drop(self, key: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        """There is no answer under this key; says whether there was one."""
        ...

    async def drop_expired(self, limit: int = 1000) -> int:
        """Answers whose time is over are gone, oldest first, at most so many; says how many. All namespaces."""
        ...

    async def counts(self, namespace: str = DEFAULT_NAMESPACE) -> CacheCounts: ...


def check_entry(key: bytes, body: bytes, ttl_us: int) -> None:
    """The entry can be stored, or an error that says what to change."""
    if len(key) != KEY_BYTES:
        msg = f"a cache key has {KEY_BYTES} bytes, not {len(key)}"
        raise InvalidPayload(msg, hint="Pass hashlib.sha256(question).digest().")
    if len(body) > BLOB_BYTES_MAX:
        msg = f"{len(body):,} bytes are more than the limit of {BLOB_BYTES_MAX:,}"
        raise TooLarge(msg, hint="Do not cache an answer of this size.")
    if not 1 <= ttl_us <= DURATION_US_MAX:
        msg = f"an answer cannot be kept for {ttl_us} microseconds"
        raise InvalidPayload(msg, hint="Keep it for at least a microsecond and at most a century.")
