"""Envelope: the binary format of an encrypted payload: key id, place, nonce, ciphertext.

    00 68 66 01 │ key id: length, text │ place: length (2), text │ nonce (12) │ AES-256-GCM ciphertext and tag

No JSON document begins with these bytes, so plain and encrypted payloads can share a table, and a store can be
encrypted from some day on. Place and key id are in plain text; both are authenticated with the ciphertext, and a reader
compares the place with where it found the payload.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.errors import InvalidSetting

MAGIC: Final = b"\x00hf\x01"
NONCE_BYTES: Final = 12


class Envelope(msgspec.Struct, frozen=True):
    key_id: str
    place: str
    nonce: bytes
    sealed: bytes


def is_sealed(data: object) -> bool:
    """Whether these bytes are an envelope."""
    return isinstance(data, bytes) and data.startswith(MAGIC)


def must_be_open(data: object, label: str) -> None:
    """Raise an error that names the missing key if these bytes are an envelope."""
    if isinstance(data, bytes) and is_sealed(data):
        envelope = read(data)
        key_id = "unknown" if envelope is None else envelope.key_id
        msg = f"{label} is encrypted with key {key_id!r}, which this process does not have"
        raise InvalidSetting(msg, hint="Set HOLDFAST_PAYLOAD_KEYS to a file that has the key.")


def encode_envelope(envelope: Envelope) -> bytes:
    key_id, place = envelope.key_id.encode(), envelope.place.encode("utf-8", "surrogatepass")
    return b"".join(
        [
            MAGIC,
            len(key_id).to_bytes(1, "big"),
            key_id,
            len(place).to_bytes(2, "big"),
            place,
            envelope.nonce,
            envelope.sealed,
        ]
    )


def read(data: bytes) -> Envelope | None:
    """Decode the envelope; None if the bytes only begin like one."""
    at = len(MAGIC)
    key_end = at + 1 + data[at] if len(data) > at else len(data)
    place_at = key_end + 2
    place_end = place_at + int.from_bytes(data[key_end:place_at], "big")
    nonce_end = place_end + NONCE_BYTES
    if len(data) < nonce_end + 16:
        return None
    try:
        return Envelope(
            data[at + 1 : key_end].decode(),
            data[place_at:place_end].decode("utf-8", "surrogatepass"),
            data[place_end:nonce_end],
            data[nonce_end:],
        )
    except UnicodeDecodeError:
        return None
