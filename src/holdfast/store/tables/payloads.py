"""Payload storage: a small body is in its row, a large one is a blob under its digest, stored once."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from holdfast.errors import InvalidPayload, NotFound, StoreCorrupt
from holdfast.model import canonical
from holdfast.model.envelope import must_be_open
from holdfast.model.limits import PAYLOAD_INLINE_BYTES
from holdfast.store.executor import Transaction

T = TypeVar("T")
W = TypeVar("W", bound=StrEnum)


class StoredBody(msgspec.Struct, frozen=True):
    """A body as two columns: `inline` is None if the bytes are a blob."""

    inline: bytes | None
    digest: bytes


async def store_body(tx: Transaction, namespace: str, body: bytes, digest: bytes | None = None) -> StoredBody:
    """Store the bytes with this transaction, in the row or as a blob."""
    digest = hashlib.sha256(body).digest() if digest is None else digest
    if len(body) <= PAYLOAD_INLINE_BYTES:
        return StoredBody(body, digest)
    await tx.run("put_blob", namespace=namespace, digest=digest, body=body)
    return StoredBody(None, digest)


async def put_blob_in(tx: Transaction, namespace: str, body: bytes) -> bytes:
    """Store the bytes as a blob with this transaction; returns the digest."""
    digest = hashlib.sha256(body).digest()
    await tx.run("put_blob", namespace=namespace, digest=digest, body=body)
    return digest


def read_json(body: bytes | None, label: str) -> Any:
    """Decode a stored body. Raises StoreCorrupt if its blob is missing or its bytes are damaged."""
    if not isinstance(body, bytes):
        msg = f"the content of {label} is missing"
        raise StoreCorrupt(msg)
    must_be_open(body, f"the content of {label}")
    try:
        return canonical.decode(body)
    except InvalidPayload as error:
        # It was canonical when it was stored, so it is damaged now.
        msg = f"the content of {label} is damaged: {error}"
        raise StoreCorrupt(msg) from error


def read_struct(kind: type[T], body: bytes | None, label: str) -> T:
    """Decode a struct that was stored field by field. Raises StoreCorrupt if the fields differ."""
    try:
        return kind(**read_json(body, label))
    except TypeError as error:
        msg = f"{label} has other fields than were stored"
        raise StoreCorrupt(msg) from error


def to_enum(kind: type[W], stored: str) -> W:
    """Convert a stored text to the enumeration of its column. Raises StoreCorrupt for any other text."""
    try:
        return kind(stored)
    except ValueError as error:
        msg = f"a stored row says {stored!r}, which is no {kind.__name__}"
        raise StoreCorrupt(msg) from error


async def need_namespace(tx: Transaction, namespace: str) -> bool:
    """Raise NotFound if the namespace does not exist. Returns whether one of its queues has limits."""
    row = await tx.row("has_namespace", namespace=namespace)
    if row is None:
        msg = f"there is no namespace {namespace!r}"
        raise NotFound(msg, hint="Create it first; `default` always exists.")
    return bool(row[0])
