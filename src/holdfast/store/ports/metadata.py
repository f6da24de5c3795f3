"""Store metadata: facts about the store itself, such as its last sweep and its last backup.

Metadata belongs to no namespace and does not expire. A user's data never goes here: it would be outside the namespaces,
outside retention, and not encrypted.
"""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

import msgspec

from holdfast.errors import InvalidPayload, TooLarge
from holdfast.model import canonical

VALUE_BYTES_MAX: Final = 8192
_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


class MetadataEntry(msgspec.Struct, frozen=True):
    """A value, and the store time at which it was written."""

    value: Any
    updated_at: int


class Metadata(Protocol):
    """JSON values by key, for the whole store."""

    async def get(self, key: str) -> MetadataEntry | None:
        """The value of this key; None if it was never written."""
        ...

    async def put(self, key: str, value: Any) -> None:
        """Write the value of this key, in place of any other. The last writer wins.

        Raises InvalidPayload for a key that is not a short lower-case name or a value that is not JSON, and TooLarge
        for more than 8 KiB.
        """
        ...


def encode_metadata(key: str, value: Any) -> bytes:
    """Encode the value as canonical JSON, or raise an error that says what to change."""
    if _KEY.fullmatch(key) is None:
        msg = f"{key[:80]!r} is not a metadata key"
        raise InvalidPayload(msg, hint="Use up to 64 lower-case letters, digits and underscores.")
    encoded = canonical.encode(value)
    if len(encoded) > VALUE_BYTES_MAX:
        msg = f"{len(encoded):,} bytes of metadata are more than the limit of {VALUE_BYTES_MAX:,}"
        raise TooLarge(msg, hint="Metadata holds short facts about the store. Put data into a blob.")
    return encoded
