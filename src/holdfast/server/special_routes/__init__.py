"""Table of all endpoints: the operations of `holdfast.api`, and the special routes of this package, which only a server
has (health, files, streams, search, keys). A new one is an operation unless it responds with a stream or a file."""

from __future__ import annotations

import functools
from typing import Any, Final

from holdfast.model.access import AccessScope
from holdfast.server.openapi import document
from holdfast.server.operation_routes import operations, to_endpoint
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.router import Endpoint
from holdfast.server.special_routes import (
    access,
    feed,
    health,
    job_history,
    job_search,
    journals,
    metrics,
    recent_activity,
)


@functools.cache
def get_openapi() -> dict[str, Any]:
    """The OpenAPI document of this version."""
    from importlib.metadata import version

    return document(ENDPOINTS, version("holdfast"))


async def openapi(_asked: ApiRequest) -> ApiResponse:
    """This document."""
    return ApiResponse(value=get_openapi(), tagged=True)


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *health.ENDPOINTS,
    Endpoint(
        method="GET",
        path="/api/openapi.json",
        handle=openapi,
        answers=dict[str, Any],
        statuses=(200, 304),
        scope=AccessScope.PUBLIC,
    ),
    *metrics.ENDPOINTS,
    *map(to_endpoint, operations()),
    *journals.ENDPOINTS,
    *job_history.ENDPOINTS,
    *job_search.ENDPOINTS,
    *recent_activity.ENDPOINTS,
    *feed.ENDPOINTS,
    *access.ENDPOINTS,
)

WORKER_ENDPOINTS: Final[tuple[Endpoint, ...]] = (*health.HEALTH, *metrics.ENDPOINTS)
"""Endpoints of a worker's own port: health and metrics, and nothing about jobs."""
