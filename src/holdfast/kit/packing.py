"""Packing: values of any size in a journal, small ones inline, large ones as blobs, all of them restored byte for byte.

    {"json": value}                                       fits into its event
    {"bytes": "base64"}                                   the same for bytes
    {"blobs": [digest, …], "size": n, "as": "json"}       anything larger, in pieces of the size of a blob

A blob lives as long as something refers to it. An event refers to a blob by digest only if that is its whole body, so
an attachment of the task refers to these.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from holdfast.errors import InvalidPayload, StoreCorrupt
from holdfast.kit.blocking_portal import Database
from holdfast.model import canonical, redaction
from holdfast.model.limits import JSON_BYTES_MAX, MIB
from holdfast.store.ports.attachments import AttachmentIntent

INLINE_MAX: Final = JSON_BYTES_MAX // 2
"""Well below the limit of an event, base64 and the event's other fields included."""

PIECE_BYTES: Final = 32 * MIB
VALUE_BYTES_MAX: Final = 1024 * MIB


def pack(db: Database, owner: str, value: object) -> dict[str, Any]:
    """Pack the value as JSON that fits into an event; its large parts are durable when this returns.

    Raises InvalidPayload for a value that is neither JSON nor bytes: the message names the place.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        raw, kind = redaction.get_redactor().data(bytes(value)), "bytes"
        if len(raw) <= INLINE_MAX // 2:
            return {"bytes": base64.b64encode(raw).decode()}
    else:
        raw, kind = canonical.encode(value, bytes_max=VALUE_BYTES_MAX), "json"
        if len(raw) <= INLINE_MAX:
            return {"json": value}
    pieces = [raw[start : start + PIECE_BYTES] for start in range(0, len(raw), PIECE_BYTES)]
    return {"blobs": [_store_piece(db, owner, piece) for piece in pieces], "size": len(raw), "as": kind}


def unpack(db: Database, packed: Any) -> Any:
    """Unpack a value."""
    match packed:
        case {"json": value}:
            return value
        case {"bytes": str() as text}:
            return base64.b64decode(text)
        case {"blobs": [*digests], "size": int() as size, "as": str() as kind}:
            raw = b"".join(db.run(db.store.blobs.get(digest)) for digest in digests)
            if len(raw) != size:
                msg = f"a value of {size} bytes came back with {len(raw)}"
                raise StoreCorrupt(msg)
            return raw if kind == "bytes" else canonical.decode(raw, bytes_max=VALUE_BYTES_MAX)
        case _:
            msg = "a stored value has a form that this Holdfast does not know"
            raise InvalidPayload(msg, hint="Read it with the version that wrote it, or a newer one.")


def round_trip(value: object) -> Any:
    """The value as a reader will get it: a tuple becomes a list in the first result, too."""
    if isinstance(value, bytes | bytearray | memoryview):
        return redaction.get_redactor().data(bytes(value))
    data = canonical.encode(value, bytes_max=VALUE_BYTES_MAX)
    return canonical.decode(data, bytes_max=VALUE_BYTES_MAX)


def _store_piece(db: Database, owner: str, piece: bytes) -> str:
    digest = db.run(db.store.blobs.put(piece))
    name = f"kit-{digest}"
    intent = AttachmentIntent(name, owner, f"sha256:{digest}", db.clock.wall_us())
    db.run(db.store.attachments.record_intent(intent))
    db.run(db.store.attachments.commit_refs(owner, [name]))
    return digest
