"""Every endpoint: those of operations, and those that only a server has (health, files, streams, search, keys)."""

from __future__ import annotations

from typing import Final

from holdfast.server.endpoints import Endpoint
from holdfast.server.operation_routes import operations, to_endpoint
from holdfast.server.routes import (
    access,
    feed,
    health,
    job_history,
    job_search,
    journals,
    metrics,
    recent_activity,
)

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *health.ENDPOINTS,
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
