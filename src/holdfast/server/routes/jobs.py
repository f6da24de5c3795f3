"""Jobs: made, listed, looked at, forked."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

from holdfast.client.records import JobView, Reply
from holdfast.engine.fork import SAME, fork
from holdfast.errors import NotOver
from holdfast.model.access import AccessScope
from holdfast.model.ids import check_name
from holdfast.model.jobs import JobFilter, JobRecord, Submitted
from holdfast.model.page import Page
from holdfast.model.states import parse_status
from holdfast.server.endpoints import Endpoint
from holdfast.server.idempotency import REPLAYED
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.schemas import Forking, Narrowed, NewJob, OneJob, WhichJobs


async def submit_job(asked: ApiRequest) -> ApiResponse:
    """Submit a job."""
    new: NewJob = asked.body
    submitted = await asked.client.submit(
        new.kind,
        new.input,
        job_id=new.id,
        request_key=asked.key(new.request_key, named="request_key"),
        queue=new.queue,
        priority=new.priority,
        session_id=new.session_id,
        ready_at=new.ready_at,
    )
    return _made(submitted)


def filter_of(which: Narrowed) -> JobFilter:
    """What a listing, or a count, is of."""
    for what in ("kind", "queue", "session_id", "parent_job_id", "text"):
        if (name := getattr(which, what)) is not None:
            check_name(name, what)
    return JobFilter(
        statuses=() if which.status is None else tuple(map(parse_status, which.status.split(","))),
        wait_reason=which.wait_reason,
        kind=which.kind,
        queue=which.queue,
        session_id=which.session_id,
        parent_job_id=which.parent_job_id,
        since=which.since,
        until=which.until,
        text=which.text,
    )


async def list_jobs(asked: ApiRequest) -> ApiResponse:
    """List jobs, newest first."""
    which: WhichJobs = asked.query
    page = await asked.client.list(filter_of(which), limit=which.limit, cursor=which.cursor)
    return ApiResponse(value=page, tagged=True)


async def get_job(asked: ApiRequest) -> ApiResponse:
    """Get one job: status, what it waits for, and its output once it has ended."""
    job_id = asked.path["id"]
    if asked.query.wait_ms:
        try:
            job = await asked.client.result(job_id, timeout_s=asked.query.wait_ms / 1000)
        except NotOver:
            job = await asked.client.get(job_id)
    else:
        job = await asked.client.get(job_id)
    return ApiResponse(value=job, tagged=True)


async def reply_of_job(asked: ApiRequest) -> ApiResponse:
    """Get the reply to a message; `wait_ms` waits for it (long polling)."""
    reply = await asked.client.reply(asked.path["id"], timeout_s=asked.query.wait_ms / 1000)
    return ApiResponse(value=reply, tagged=True)


async def fork_job(asked: ApiRequest) -> ApiResponse:
    """Fork a job: create a job that shares its history up to a step and runs the rest itself."""
    await asked.head()
    how: Forking = asked.body
    submitted = await fork(
        asked.store,
        asked.path["id"],
        at=how.at,
        ids=asked.house.ids,
        given=SAME if how.input is msgspec.UNSET else how.input,
        fork_id=None if how.id is None else check_name(how.id, "job id"),
        request_key=asked.key(how.request_key, named="request_key"),
        queue=how.queue,
        priority=how.priority,
        edits=how.edits,
        by=asked.by(how.by),
        why=how.why,
    )
    return _made(submitted)


def _made(submitted: Submitted) -> ApiResponse:
    where = {"Location": f"/api/jobs/{quote(submitted.job_id, safe='')}"}
    if submitted.created:
        return ApiResponse(value=submitted, status=201, headers=where)
    return ApiResponse(value=submitted, headers=where | REPLAYED)


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/api/jobs",
        handle=submit_job,
        submits=True,
        body=NewJob,
        answers=Submitted,
        statuses=(201, 200),
        keyed=True,
        errors=(409, 413, 415, 422, 503),
        scope=AccessScope.OPERATE,
    ),
    Endpoint(
        method="GET",
        path="/api/jobs",
        handle=list_jobs,
        query=WhichJobs,
        answers=Page[JobRecord],
        statuses=(200, 304),
        errors=(422,),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="GET",
        path="/api/jobs/{id}",
        handle=get_job,
        query=OneJob,
        answers=JobView,
        statuses=(200, 304),
        errors=(404,),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="GET",
        path="/api/jobs/{id}/reply",
        handle=reply_of_job,
        query=OneJob,
        answers=Reply,
        statuses=(200, 304),
        errors=(404, 409, 503),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="POST",
        path="/api/jobs/{id}/fork",
        handle=fork_job,
        submits=True,
        body=Forking,
        answers=Submitted,
        statuses=(201, 200),
        keyed=True,
        errors=(404, 409, 415, 422),
        scope=AccessScope.OPERATE,
    ),
)
