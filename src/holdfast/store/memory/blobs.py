"""Blobs in memory, and the collection of those that nothing refers to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, TypeGuard

from holdfast.errors import InvalidPayload, NotFound, StoreCorrupt, TooLarge
from holdfast.model import canonical
from holdfast.model.events import LlmRequested
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.limits import BLOB_BYTES_MAX, PAYLOAD_INLINE_BYTES
from holdfast.model.session import CollectionResult
from holdfast.store.memory.state import BlobRow, JobRow, MemoryState, MemoryTransaction, SessionRow, Tables

_BY_CONTENT: Final = "sha256:"


class MemoryBlobs:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def put(self, body: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> str:
        with self._state.transaction() as work:
            work.need_namespace(namespace)
            if len(body) > BLOB_BYTES_MAX:
                raise TooLarge(f"a blob of {len(body):,} bytes; the limit is {BLOB_BYTES_MAX:,}")
            return _put(work, namespace, bytes(body))

    async def get(self, digest: str, *, namespace: str = DEFAULT_NAMESPACE) -> bytes:
        digest = _check_digest(digest)
        row = self._state.tables.blobs.get((namespace, digest))
        if row is None:
            raise NotFound(f"there is no blob {digest!r}")
        if _hash_body(row.body) != digest:
            raise StoreCorrupt(f"the bytes of blob {digest} do not match their digest")
        return row.body

    async def has(self, digest: str, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        return (namespace, _check_digest(digest)) in self._state.tables.blobs


def keep_large(work: MemoryTransaction, namespace: str, body: bytes | None) -> None:
    """Store a body as a blob if the databases would not store it inside a row."""
    if _is_large(body):
        _put(work, namespace, body)


def keep(work: MemoryTransaction, namespace: str, body: bytes) -> None:
    """Store the bytes as a blob, whatever their size."""
    _put(work, namespace, body)


def find_unreferenced(tables: Tables, namespace: str) -> Iterator[tuple[str, BlobRow]]:
    """Blobs that nothing refers to."""
    in_use = set(_list_references(tables, namespace))
    for (owner, digest), row in tables.blobs.items():
        if owner == namespace and digest not in in_use:
            yield digest, row


def collect(work: MemoryTransaction, namespace: str, older_than_us: int) -> CollectionResult:
    """Remove blobs that nothing refers to and that are older than the grace period."""
    in_use = set(_list_references(work.tables, namespace))
    roots = retained = deleted = 0
    for (owner, digest), row in list(work.tables.blobs.items()):
        if owner != namespace:
            continue
        if digest in in_use:
            roots += 1
        elif row.created_at + older_than_us > work.wall:
            retained += 1
        else:
            del work.tables.blobs[owner, digest]
            deleted += 1
    return CollectionResult(roots=roots, retained=retained, deleted=deleted)


def _put(work: MemoryTransaction, namespace: str, body: bytes) -> str:
    digest = _hash_body(body)
    # Storing a blob again renews its time: its writer is about to refer to it.
    work.tables.blobs[namespace, digest] = BlobRow(body, work.wall)
    return digest


def _list_references(tables: Tables, namespace: str) -> Iterator[str]:
    """The digest of every blob that a row of this namespace needs."""
    for job in tables.jobs.values():
        if job.head.namespace == namespace:
            yield from (_hash_body(body) for body in _list_job_bodies(job) if _is_large(body))
            yield from _list_message_digests(job)
    for (owner, _), session in tables.sessions.items():
        if owner == namespace:
            yield from (_hash_body(body) for body in _list_session_bodies(session) if _is_large(body))
    for (owner, _), intent in tables.attachments.items():
        if owner == namespace and intent.uri.startswith(_BY_CONTENT):
            yield intent.uri.removeprefix(_BY_CONTENT)


def _list_message_digests(job: JobRow) -> Iterator[str]:
    """The digests in requests to models: each message is a blob of its own."""
    for event in job.events:
        if event.type == LlmRequested.type and event.body is not None:
            yield from canonical.decode(event.body).get("messages", ())


def _list_job_bodies(job: JobRow) -> Iterator[bytes | None]:
    yield from (event.body for event in job.events)
    yield from (letter.body for letter in job.letters)


def _list_session_bodies(session: SessionRow) -> Iterator[bytes | None]:
    yield from (node.body for node in session.nodes.values())
    yield from (frame.snapshot for frame in session.frames.values())
    if session.checkpoint is not None:
        yield session.checkpoint.tool_state
        yield session.checkpoint.plugin_snapshot
        yield session.checkpoint.execution_state
    for row in session.batches.values():
        yield from (item.payload for item in row.batch.items)


def _is_large(body: bytes | None) -> TypeGuard[bytes]:
    return body is not None and len(body) > PAYLOAD_INLINE_BYTES


def _hash_body(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _check_digest(digest: str) -> str:
    """The digest in lower case. Raises InvalidPayload if it is no digest."""
    if len(digest) != 64 or set(digest.lower()) - set("0123456789abcdef"):
        raise InvalidPayload(f"{digest!r} is not a SHA-256 in hex")
    return digest.lower()
