"""Job search: the caller's identity, counts and names of jobs, lists of sessions, and bulk commands."""

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
from holdfast.server.router import Endpoint, Handle


async def who_am_i(request: ApiRequest) -> ApiResponse:
    """Get the caller's identity and scopes."""
    principal = request.principal
    by = "key" if principal.key_id is not None else "token" if principal is LOCAL else "nobody"
    who = Who(
        name=principal.name,
        namespace=principal.namespace,
        roles=tuple(principal.roles),
        scopes=tuple(sorted(scopes_of(principal.roles) - {AccessScope.PUBLIC})),
        by=by,  # type: ignore[arg-type]  # one of the three literals
        loopback=is_loopback(request.request.scope["server"][0]),
        version=version("holdfast"),
        now=request.house.clock.wall_us(),
    )
    return ApiResponse(value=who)


async def tally_jobs(request: ApiRequest) -> ApiResponse:
    """Count jobs that match a filter, by status and wait reason."""
    job_filter = msgspec.structs.replace(to_filter(request.query), namespace=request.namespace)
    counts = await request.store.jobs.tally(job_filter)
    by_status: Counter[str] = Counter()
    by_reason: Counter[str] = Counter()
    for (status, reason), count in counts.items():
        by_status[status] += count
        if reason is not None:
            by_reason[reason] += count
    tally = Tally(total=by_status.total(), by_status=dict(by_status), by_wait_reason=dict(by_reason))
    return ApiResponse(value=tally, tagged=True)


async def name_jobs(request: ApiRequest) -> ApiResponse:
    """List the kinds and queues of jobs."""
    return ApiResponse(value=await request.store.jobs.names(request.namespace), tagged=True)


async def list_sessions(request: ApiRequest) -> ApiResponse:
    """List sessions, newest id first."""
    query: WhichSessions = request.query
    page = await request.store.sessions.list(
        text=None if query.text is None else check_name(query.text, "text"),
        limit=query.limit,
        cursor=query.cursor,
        namespace=request.namespace,
    )
    return ApiResponse(value=page, tagged=True)


async def list_attachments(request: ApiRequest) -> ApiResponse:
    """List the attachments of a session, oldest first."""
    session_id = check_name(request.path["session_id"], "session id")
    attachments = await request.store.attachments.list(session_id, namespace=request.namespace)
    return ApiResponse(value=AttachmentList(items=tuple(attachments)), tagged=True)


# ── many at once ──────────────────────────────────────────────────────────────────────────────────


async def cancel_many(request: ApiRequest) -> ApiResponse:
    """Cancel many jobs; returns the outcome for each."""
    return await _each(request, request.client.cancel, "job.cancel")


async def requeue_many(request: ApiRequest) -> ApiResponse:
    """Requeue many dead letters; returns the outcome for each."""
    return await _each(request, request.client.requeue, "dead.requeue")


async def _each(request: ApiRequest, send: Callable[..., Awaitable[Accepted]], audited: str) -> ApiResponse:
    """Sends the command to one job after the other. An invalid command is rejected as a whole; an error of one job is
    reported in its outcome; an unavailable store ends the request, and the same request under its key continues from
    there."""
    command: Many = request.body
    key = request.key(command.operation_id)
    key = None if key is None else check_name(key, "operation id")
    outcomes: list[BulkOutcome] = []
    for job_id in dict.fromkeys([check_name(outcome, "job id") for outcome in command.ids]):
        try:
            accepted = await send(job_id, why=command.why, by=request.by(command.by), operation_id=key)
        except (Misuse, Conflict) as error:
            outcomes.append(_refused(job_id, error))
            continue
        await audit.note(request, audited, {"id": job_id}, job_id, accepted.operation_id)
        outcomes.append(
            BulkOutcome(job_id=job_id, accepted=True, at_once=accepted.at_once, repeated=accepted.repeated)
        )
    return ApiResponse(
        value=ToldMany(items=tuple(outcomes), accepted=sum(outcome.accepted for outcome in outcomes))
    )


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
