"""Every endpoint there is, a file for each noun."""

from __future__ import annotations

import functools
from typing import Any, Final

from holdfast.model.access import AccessScope
from holdfast.server.endpoints import Endpoint
from holdfast.server.openapi import document
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.routes import (
    access,
    agents,
    attention,
    commands,
    dead_letters,
    health,
    job_history,
    job_search,
    jobs,
    journals,
    metrics,
    operating,
    recent_activity,
    registry,
    sessions,
    work,
    workers,
)


@functools.cache
def served() -> dict[str, Any]:
    """The OpenAPI document of this version."""
    from importlib.metadata import version

    return document(ENDPOINTS, version("holdfast"))


async def openapi(_asked: ApiRequest) -> ApiResponse:
    """This document."""
    return ApiResponse(value=served(), tagged=True)


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
    *jobs.ENDPOINTS,
    *journals.ENDPOINTS,
    *job_history.ENDPOINTS,
    *job_search.ENDPOINTS,
    *recent_activity.ENDPOINTS,
    *commands.ENDPOINTS,
    *attention.ENDPOINTS,
    *dead_letters.ENDPOINTS,
    *sessions.ENDPOINTS,
    *agents.ENDPOINTS,
    *registry.ENDPOINTS,
    *work.ENDPOINTS,
    *workers.ENDPOINTS,
    *access.ENDPOINTS,
    *operating.ENDPOINTS,
)

WORKER_ENDPOINTS: Final[tuple[Endpoint, ...]] = (*health.HEALTH, *metrics.ENDPOINTS)
"""What a worker answers on its own port: how it is, and nothing about jobs."""
