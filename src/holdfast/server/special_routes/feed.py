"""Feed: events of work items and external agents, as server-sent events."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp

from holdfast.model.access import AccessScope
from holdfast.server.request import ApiRequest
from holdfast.server.router import Endpoint
from holdfast.server.schemas import WhichNews
from holdfast.server.streams import Stream
from holdfast.server.work_feed import after_of, feed


async def follow_feed(request: ApiRequest) -> ASGIApp:
    """Events of work items and external agents, as server-sent events."""
    after = after_of(request.request.headers.get("last-event-id") or request.query.after)
    api = request.api
    return Stream(request, lambda: feed(api, after))


ENDPOINTS: Final = (
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
)
