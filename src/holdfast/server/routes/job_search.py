"""Looking at many jobs, and speaking to many: who asks, how many there are, what they go by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Final

import msgspec

from holdfast.api.job_records import Accepted
from holdfast.api.jobs import JobSelection, to_filter
from holdfast.errors import Conflict, HoldfastError, Misuse
from holdfast.model.access import AccessScope, scopes_of
from holdfast.model.ids import check_name
from holdfast.model.jobs import JobNames
from holdfast.model.page import Page
from holdfast.model.session import SessionRecord
from holdfast.server import audit
from holdfast.server.access import LOCAL
from holdfast.server.endpoints import Endpoint, Handle
from holdfast.server.origin_checks import is_loopback
from holdfast.server.page_schemas import (
    AttachmentList,
    BulkOutcome,
    Many,
    Tally,
    ToldMany,
    WhichSessions,
    Who,
)
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse


async def who_am_i(asked: ApiRequest) -> ApiResponse:
    """Get the caller's identity and scopes."""
    one = asked.principal
    by = "key" if one.key_id is not None else "token" if one is LOCAL else "nobody"
    who = Who(
        name=one.name,
        namespace=one.namespace,
        roles=tuple(one.roles),
        scopes=tuple(sorted(scopes_of(one.roles) - {AccessScope.PUBLIC})),
        by=by,  # type: ignore[arg-type]  # one of the three
        loopback=is_loopback(asked.request.scope["server"][0]),
        version=version("holdfast"),
        now=asked.house.clock.wall_us(),
    )
    return ApiResponse(value=who)


async def tally_jobs(asked: ApiRequest) -> ApiResponse:
    """Count jobs that match a filter, by status and wait reason."""
    which = msgspec.structs.replace(to_filter(asked.query), namespace=asked.namespace)
    found = await asked.store.jobs.tally(which)
    by_status: Counter[str] = Counter()
    by_reason: Counter[str] = Counter()
    for (status, reason), count in found.items():
        by_status[status] += count
        if reason is not None:
            by_reason[reason] += count
    tally = Tally(total=by_status.total(), by_status=dict(by_status), by_wait_reason=dict(by_reason))
    return ApiResponse(value=tally, tagged=True)


async def name_jobs(asked: ApiRequest) -> ApiResponse:
    """List the kinds and queues of jobs."""
    return ApiResponse(value=await asked.store.jobs.names(asked.namespace), tagged=True)


async def list_sessions(asked: ApiRequest) -> ApiResponse:
    """List sessions, newest id first."""
    which: WhichSessions = asked.query
    page = await asked.store.sessions.list(
        text=None if which.text is None else check_name(which.text, "text"),
        limit=which.limit,
        cursor=which.cursor,
        namespace=asked.namespace,
    )
    return ApiResponse(value=page, tagged=True)


async def list_attachments(asked: ApiRequest) -> ApiResponse:
    """List the attachments of a session, oldest first."""
    session_id = check_name(asked.path["session_id"], "session id")
    found = await asked.store.attachments.list(session_id, namespace=asked.namespace)
    return ApiResponse(value=AttachmentList(items=tuple(found)), tagged=True)


# ── many at once ──────────────────────────────────────────────────────────────────────────────────


async def cancel_many(asked: ApiRequest) -> ApiResponse:
    """Cancel many jobs; returns the outcome for each."""
    return await _each(asked, asked.client.cancel, "job.cancel")


async def requeue_many(asked: ApiRequest) -> ApiResponse:
    """Requeue many dead letters; returns the outcome for each."""
    return await _each(asked, asked.client.requeue, "dead.requeue")


async def _each(asked: ApiRequest, say: Callable[..., Awaitable[Accepted]], audited: str) -> ApiResponse:
    """One after the other. What is wrong with the word itself is refused whole; what stands against one of them is told
    beside it; a store that is away ends it all, and the same request under its key goes on from there."""
    word: Many = asked.body
    key = asked.key(word.operation_id)
    key = None if key is None else check_name(key, "operation id")
    told: list[BulkOutcome] = []
    for job_id in dict.fromkeys([check_name(one, "job id") for one in word.ids]):
        try:
            accepted = await say(job_id, why=word.why, by=asked.by(word.by), operation_id=key)
        except (Misuse, Conflict) as error:
            told.append(_refused(job_id, error))
            continue
        await audit.note(asked, audited, {"id": job_id}, job_id, accepted.operation_id)
        told.append(
            BulkOutcome(job_id=job_id, accepted=True, at_once=accepted.at_once, repeated=accepted.repeated)
        )
    return ApiResponse(value=ToldMany(items=tuple(told), accepted=sum(one.accepted for one in told)))


def _refused(job_id: str, error: HoldfastError) -> BulkOutcome:
    return BulkOutcome(job_id=job_id, accepted=False, code=error.code, detail=f"{error} {error.hint}".strip())


def _many(path: str, handle: Handle) -> Endpoint:
    return Endpoint(
        method="POST",
        path=path,
        handle=handle,
        body=Many,
        answers=ToldMany,
        keyed=True,
        errors=(415, 422),
        scope=AccessScope.OPERATE,
    )


ENDPOINTS: Final = (
    Endpoint(method="GET", path="/api/whoami", handle=who_am_i, answers=Who, scope=AccessScope.READ),
    Endpoint(
        method="GET",
        path="/api/tally",
        handle=tally_jobs,
        query=JobSelection,
        answers=Tally,
        statuses=(200, 304),
        errors=(422,),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="GET",
        path="/api/names",
        handle=name_jobs,
        answers=JobNames,
        statuses=(200, 304),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="GET",
        path="/api/sessions",
        handle=list_sessions,
        query=WhichSessions,
        answers=Page[SessionRecord],
        statuses=(200, 304),
        errors=(422,),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="GET",
        path="/api/sessions/{session_id}/attachments",
        handle=list_attachments,
        answers=AttachmentList,
        statuses=(200, 304),
        scope=AccessScope.READ,
        session="session_id",
    ),
    _many("/api/bulk/cancel", cancel_many),
    _many("/api/bulk/requeue", requeue_many),
)
