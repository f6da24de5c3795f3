"""Job export: reads a journal from an open store into one file, signed if this process has a key."""

from __future__ import annotations

from importlib.metadata import version

from holdfast.client.export_file import BLOBS, JOURNAL, find_blobs, line_of, seal_archive
from holdfast.client.signing import signing_key
from holdfast.errors import NotFound
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.jobs import JobHead
from holdfast.store.contract import Store


async def archive(store: Store, head: JobHead, now: int) -> bytes:
    """The journal up to this head, and the blobs that it names. An erased blob is missing; its digest is included."""
    key = signing_key()
    events = [event for event in await store.journal.read(head.job_id) if event.seq <= head.head_seq]
    if len(events) != head.head_seq:
        msg = f"job {head.job_id} was removed while it was read"
        raise NotFound(msg)
    blobs = await _blobs(store, head.namespace, events)
    files = {JOURNAL: b"".join(line_of(event) + b"\n" for event in events)}
    files |= {BLOBS + digest: body for digest, body in blobs.items()}
    fields = {
        "holdfast": version("holdfast"),
        "job_id": head.job_id,
        "kind": head.kind,
        "namespace": head.namespace,
        "status": str(head.status),
        "head_seq": head.head_seq,
        "head_hash": head.head_hash.hex(),
        "events": len(events),
        "erased": sum(event.body is None for event in events),
        "blobs": len(blobs),
        "exported_at": now,
    }
    return seal_archive(files, fields, key)


async def _blobs(store: Store, namespace: str, events: list[SealedEvent]) -> dict[str, bytes]:
    blobs: dict[str, bytes] = {}
    for digest in dict.fromkeys(digest for event in events for digest in find_blobs(event)):
        try:
            blobs[digest] = await store.blobs.get(digest, namespace=namespace)
        except NotFound:
            continue
    return blobs
