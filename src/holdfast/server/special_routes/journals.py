"""Journal exports, and the output stream of a job."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp

from holdfast.client.job_export import archive
from holdfast.errors import NotFound
from holdfast.model import canonical
from holdfast.model.access import AccessScope
from holdfast.model.events import LlmRequested
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.jobs import JobHead
from holdfast.model.limits import EVENTS_PER_PAGE_MAX
from holdfast.model.streams import parse_cursor
from holdfast.server.request import ApiRequest
from holdfast.server.responses import encode_json
from holdfast.server.router import Endpoint
from holdfast.server.schemas import WhichChunks
from holdfast.server.streams import Stream, words_of_job

ZIP: Final = "application/zip"


async def stream_job(request: ApiRequest) -> ASGIApp:
    """Stream the output of a running job, as server-sent events."""
    head = await request.head()
    query: WhichChunks = request.query
    after = request.request.headers.get("last-event-id") or query.after
    parse_cursor(after)  # rejected while a status can still be sent
    state = request.house
    return Stream(request, lambda: words_of_job(state, head.job_id, after=after, stream=query.stream))


# ── export ────────────────────────────────────────────────────────────────────────────────────────


class JournalLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of an export. `what` is `job`, `event`, `blob` or `end`; bytes are base64."""

    what: str
    job_id: str = ""
    kind: str = ""
    namespace: str = ""
    status: str = ""
    head_seq: int = 0
    head_hash: str = ""
    seq: int = 0
    type: str = ""
    version: int = 0
    fence: int = 0
    at: int = 0
    body: Any = None
    body_digest: str = ""
    hash: str = ""
    digest: str = ""
    base64: str = ""


async def export_job(request: ApiRequest) -> ASGIApp:
    """Export a journal with its blobs, as JSON lines; the last line marks a complete export.

    A client that accepts `application/zip` gets one file, signed if the server has a key.
    """
    head = await request.head()
    name = canonical.hex_digest(head.job_id.encode())[:16]
    if ZIP in request.request.headers.get("accept", ""):
        return Response(
            await archive(request.store, head, request.house.clock.wall_us()),
            media_type=ZIP,
            headers={"Content-Disposition": f'attachment; filename="job-{name}.zip"'},
        )
    return StreamingResponse(
        _lines(request, head),
        media_type="application/x-ndjson",
        headers={"Content-Disposition": f'attachment; filename="job-{name}.jsonl"'},
    )


async def _lines(request: ApiRequest, head: JobHead) -> AsyncIterator[bytes]:
    at_head = {"head_seq": head.head_seq, "head_hash": head.head_hash.hex()}
    yield _line(
        JournalLine(
            what="job",
            job_id=head.job_id,
            kind=head.kind,
            namespace=head.namespace,
            status=head.status,
            **at_head,  # type: ignore[arg-type]
        )
    )
    exported: set[str] = set()
    seq = 0
    while seq < head.head_seq:
        most = min(EVENTS_PER_PAGE_MAX, head.head_seq - seq)
        page = await request.store.journal.read(head.job_id, after=seq, limit=most)
        if not page:
            return  # the job was removed meanwhile; the missing last line marks the export as incomplete
        for sealed in page:
            seq = sealed.seq
            yield _line(_event(sealed))
            for digest in _named(sealed):
                if digest not in exported:
                    exported.add(digest)
                    yield _line(await _blob(request, digest))
    yield _line(JournalLine(what="end", **at_head))  # type: ignore[arg-type]


def _event(sealed: SealedEvent) -> JournalLine:
    return JournalLine(
        what="event",
        seq=sealed.seq,
        type=sealed.type,
        version=sealed.version,
        fence=sealed.fence,
        at=sealed.at,
        body=None if sealed.body is None else canonical.decode_stored(sealed.body),
        body_digest=sealed.body_digest.hex(),
        hash=sealed.hash.hex(),
    )


def _named(sealed: SealedEvent) -> list[str]:
    """The blobs that an event names: the parts of a request to a model."""
    if sealed.type != LlmRequested.type or sealed.body is None:
        return []
    return [str(digest) for digest in canonical.decode_stored(sealed.body).get("messages", ())]


async def _blob(request: ApiRequest, digest: str) -> JournalLine:
    try:
        body = await request.store.blobs.get(digest, namespace=request.namespace)
    except NotFound:
        return JournalLine(what="blob", digest=digest)  # erased: only its digest is left
    return JournalLine(what="blob", digest=digest, base64=base64.b64encode(body).decode())


def _line(line: JournalLine) -> bytes:
    return encode_json(line) + b"\n"


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/jobs/{job_id}/export",
        handle=export_job,
        answers=JournalLine,
        media="application/x-ndjson",
        also=(ZIP,),
        errors=(404,),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="GET",
        path="/api/jobs/{job_id}/stream",
        handle=stream_job,
        query=WhichChunks,
        answers=str,
        media="text/event-stream",
        errors=(404, 422, 429),
        scope=AccessScope.READ,
    ),
)
