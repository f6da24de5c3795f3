"""Recent activity: time series by minute, and the feed of changed jobs."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta
from starlette.types import ASGIApp

from holdfast.api.requests import OperationRequest, Whole
from holdfast.model.access import AccessScope
from holdfast.server.job_feed import job_feed
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.router import Endpoint
from holdfast.server.schemas import WhichNews
from holdfast.server.streams import Stream
from holdfast.server.time_series import NumbersView
from holdfast.server.work_feed import after_of

MINUTES_MAX: Final = 1_440


class WhichNumbers(OperationRequest, frozen=True, kw_only=True):
    """`minutes` up to now; `today_since` is the instant that the reader's day began at."""

    minutes: Annotated[int, Meta(ge=1, le=MINUTES_MAX)] = 60
    today_since: Whole | None = None


async def get_numbers(request: ApiRequest) -> ApiResponse:
    """Time series of jobs, calls, tokens and cost, computed from journals."""
    query: WhichNumbers = request.query
    numbers = await request.house.numbers.look(
        request.namespace,
        now=request.house.clock.wall_us(),
        minutes=query.minutes,
        today_since=query.today_since,
    )
    return ApiResponse(value=numbers, tagged=True)


async def follow_jobs(request: ApiRequest) -> ASGIApp:
    """Stream jobs that have changed, as server-sent events."""
    after = after_of(request.request.headers.get("last-event-id") or request.query.after)
    store, namespace = request.store, request.namespace
    return Stream(request, lambda: job_feed(store, namespace, after))


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/time-series",
        handle=get_numbers,
        query=WhichNumbers,
        answers=NumbersView,
        statuses=(200, 304),
        errors=(422,),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="GET",
        path="/api/feed/jobs",
        handle=follow_jobs,
        query=WhichNews,
        answers=str,
        media="text/event-stream",
        errors=(422, 429),
        scope=AccessScope.READ,
    ),
)
