"""Session checkpoint: a small document that refers to its states by digest, and the states themselves.

A session keeps only its newest checkpoint, in its own row, so the cost of a turn does not grow with the history. The
digest of a checkpoint covers its states through their digests; it does not depend on where the states are stored (small
ones in the row, large ones as blobs).
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any, Final

import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.model import canonical
from holdfast.model.limits import PAYLOAD_INLINE_BYTES
from holdfast.model.session import SessionCheckpoint
from holdfast.store.executor import Transaction
from holdfast.store.tables.payloads import read_json

BYTE_FIELDS: Final = ("tool_state", "plugin_snapshot", "execution_state")


def pack_checkpoint(checkpoint: SessionCheckpoint, blobs: dict[bytes, bytes]) -> tuple[bytes, bytes]:
    """Encode the document and the small states for the session's row; add the large states to `blobs`."""
    document: dict[str, Any] = msgspec.structs.asdict(checkpoint)
    small = {}
    for name in BYTE_FIELDS:
        state = document[name]
        if state is None:
            continue
        digest = hashlib.sha256(state)
        document[name] = digest.hexdigest()
        if len(state) <= PAYLOAD_INLINE_BYTES:
            small[name] = base64.b64encode(state).decode()
        else:
            blobs[digest.digest()] = state
    return canonical.encode(document), canonical.encode(small)


async def load_checkpoint(
    tx: Transaction, namespace: str, document: bytes, states: bytes
) -> SessionCheckpoint:
    """Load the whole checkpoint, each state checked against its digest."""
    fields, small = _read(document, states)
    for name, digest in _decode_digests(fields).items():
        if name in small:
            state = _decode_base64(small[name])
        else:
            row = await tx.row("get_blob", namespace=namespace, digest=digest)
            state = None if row is None else bytes(row[0])
        if state is None or hashlib.sha256(state).digest() != digest:
            msg = f"the checkpoint's {name} {fields[name]} is missing or damaged"
            raise StoreCorrupt(msg)
        fields[name] = state
    return SessionCheckpoint(**fields)


def blobs_of(document: bytes, states: bytes) -> set[bytes]:
    """The digests of the states that are stored as blobs."""
    fields, small = _read(document, states)
    return {digest for name, digest in _decode_digests(fields).items() if name not in small}


def _read(document: bytes, states: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    """Decode the document and the small states. Raises StoreCorrupt if `pack_checkpoint` cannot have written them."""
    fields, small = read_json(document, "a checkpoint"), read_json(states, "a checkpoint's states")
    if not isinstance(fields, dict) or fields.keys() != set(SessionCheckpoint.__struct_fields__):
        msg = "a checkpoint has other fields than were stored"
        raise StoreCorrupt(msg)
    if not isinstance(small, dict) or not small.keys() <= set(BYTE_FIELDS):
        msg = "a checkpoint has other states than were stored"
        raise StoreCorrupt(msg)
    return fields, small


def _decode_digests(fields: dict[str, Any]) -> dict[str, bytes]:
    try:
        return {name: bytes.fromhex(fields[name]) for name in BYTE_FIELDS if fields[name] is not None}
    except (TypeError, ValueError) as error:
        msg = "a checkpoint names a state by something that is no digest"
        raise StoreCorrupt(msg) from error


def _decode_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None
