"""Work that is routed by capability: submitted, claimed by agents that live elsewhere, ended by whoever holds it."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec
from starlette.types import ASGIApp

from holdfast.client.work_records import ClaimList, Renewed, WorkList, WorkView
from holdfast.engine.external_work import ExternalWork
from holdfast.model.access import AccessScope
from holdfast.model.agent_registry import DEFAULT_PROJECT
from holdfast.model.work import Work
from holdfast.server.endpoints import Endpoint, Handle
from holdfast.server.idempotency import REPLAYED
from holdfast.server.long_poll import while_heard
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.streams import Stream
from holdfast.server.work_feed import after_of, feed
from holdfast.server.work_schemas import (
    Cancels,
    Claims,
    Completes,
    Fails,
    NewWork,
    Progresses,
    Releases,
    Renews,
    WhichNews,
    WhichWork,
)


async def submit_work(asked: ApiRequest) -> ApiResponse:
    """Submit a work item."""
    new: NewWork = asked.body
    told = {name: value for name, value in msgspec.structs.asdict(new).items() if value is not None}
    work = Work(**{"project_id": DEFAULT_PROJECT, **told})
    view, created = await asked.client.ask_for_work(work, asked.key())
    where = {"Location": f"/api/work/{quote(view.id, safe='')}"}
    if created:
        asked.house.ready(work.capability)
        return ApiResponse(value=view, status=201, headers=where)
    return ApiResponse(value=view, headers=where | REPLAYED)


async def list_work(asked: ApiRequest) -> ApiResponse:
    """List work items, newest first."""
    which: WhichWork = asked.query
    page = await asked.client.list_work(
        status=which.status,
        capability=which.capability,
        boundary=which.boundary,
        project_id=which.project,
        limit=which.limit,
        cursor=which.cursor,
    )
    return ApiResponse(value=page, tagged=True)


async def get_work(asked: ApiRequest) -> ApiResponse:
    """Get one work item: its agent, progress and result."""
    return ApiResponse(value=await asked.client.get_work(asked.path["id"]), tagged=True)


async def claim_work(asked: ApiRequest) -> ApiResponse:
    """Claim work items for an agent; each is leased for a time."""
    ask: Claims = asked.body
    claim = functools.partial(
        asked.client.claim_work,
        ask.guid,
        capabilities=ask.capabilities,
        limit=ask.limit,
        lease_seconds=ask.lease_seconds,
        claim_id=asked.key(ask.claim_id, named="claimId") or asked.house.ids.new("claim"),
    )
    if ask.wait_seconds == 0:
        return ApiResponse(
            value=ClaimList(items=await claim())
        )  # it is answered before anybody could hang up
    granted = await while_heard(asked, claim(wait_seconds=ask.wait_seconds))
    if granted is None and asked.house.draining.is_set():
        granted = await claim()  # what was granted just then is found again
    return ApiResponse(value=ClaimList(items=granted or ()))


async def renew_work(asked: ApiRequest) -> ApiResponse:
    """Renew the lease of a work item."""
    said: Renews = asked.body
    return ApiResponse(value=await asked.client.renew_work(asked.path["id"], **_said(said)))


async def progress_work(asked: ApiRequest) -> ApiResponse:
    """Report the progress of a work item; renews the lease."""
    said: Progresses = asked.body
    return ApiResponse(value=await asked.client.progress_work(asked.path["id"], **_said(said)))


async def complete_work(asked: ApiRequest) -> ApiResponse:
    """Complete a work item. Repeating the request returns the first response."""
    said: Completes = asked.body
    return ApiResponse(value=await asked.client.complete_work(asked.path["id"], **_said(said)))


async def fail_work(asked: ApiRequest) -> ApiResponse:
    """Report a failed attempt: the work is retried, becomes a dead letter, or fails for good."""
    said: Fails = asked.body
    view = await asked.client.fail_work(
        asked.path["id"],
        fence=said.fence,
        lease_token=said.lease_token,
        message=said.error.message,
        code=said.error.code,
        recoverable=said.recoverable,
    )
    return ApiResponse(value=view)


async def release_work(asked: ApiRequest) -> ApiResponse:
    """Release a work item: it is pending at once."""
    said: Releases = asked.body
    view = await asked.client.release_work(asked.path["id"], **_said(said))
    asked.house.ready(view.capability)
    return ApiResponse(value=view)


async def cancel_work(asked: ApiRequest) -> ApiResponse:
    """Cancel a work item. The agent that holds it can no longer report on it."""
    said: Cancels = asked.body
    return ApiResponse(
        value=await asked.client.cancel_work(asked.path["id"], why=said.why, by=asked.by(said.by))
    )


async def follow_feed(asked: ApiRequest) -> ASGIApp:
    """Stream changes of work items and agents, as server-sent events."""
    after = after_of(asked.request.headers.get("last-event-id") or asked.query.after)
    store, client, namespace = asked.store, asked.client, asked.namespace
    outwork = ExternalWork(store, asked.house.clock, random.random)
    return Stream(asked, lambda: feed(store, client, outwork, namespace, after))


def _said(said: msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(said)


def _word(
    verb: str, handle: Handle, body: Any, answers: Any, scope: AccessScope = AccessScope.WORK
) -> Endpoint:
    """Something that is said about one work item."""
    return Endpoint(
        method="POST",
        path=f"/api/work/{{id}}/{verb}",
        handle=handle,
        body=body,
        answers=answers,
        keyed=True,
        errors=(404, 409, 415, 422, 503),
        scope=scope,
    )


def _reads(path: str, handle: Handle, answers: Any, query: Any, errors: Sequence[int]) -> Endpoint:
    return Endpoint(
        method="GET",
        path=path,
        handle=handle,
        query=query,
        answers=answers,
        statuses=(200, 304),
        errors=tuple(errors),
        scope=AccessScope.READ,
    )


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/api/work",
        handle=submit_work,
        body=NewWork,
        answers=WorkView,
        statuses=(201, 200),
        keyed=True,
        errors=(409, 413, 415, 422, 503),
        submits=True,
        scope=AccessScope.OPERATE,
    ),
    _reads("/api/work", list_work, WorkList, WhichWork, (422,)),
    Endpoint(
        method="POST",
        path="/api/work/claim",
        handle=claim_work,
        body=Claims,
        answers=ClaimList,
        keyed=True,
        errors=(404, 415, 422, 503),
        scope=AccessScope.WORK,
    ),
    Endpoint(
        method="GET",
        path="/api/work/{id}",
        handle=get_work,
        answers=WorkView,
        statuses=(200, 304),
        errors=(404,),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="GET",
        path="/api/feed",
        handle=follow_feed,
        query=WhichNews,
        answers=str,
        media="text/event-stream",
        errors=(422, 429),
        scope=AccessScope.READ,
    ),
    _word("renew", renew_work, Renews, Renewed),
    _word("progress", progress_work, Progresses, Renewed),
    _word("complete", complete_work, Completes, WorkView),
    _word("fail", fail_work, Fails, WorkView),
    _word("release", release_work, Releases, WorkView),
    _word("cancel", cancel_work, Cancels, WorkView, AccessScope.OPERATE),
)
