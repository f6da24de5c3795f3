"""Every endpoint there is, a file for each noun."""

from __future__ import annotations

from typing import Final

from holdfast.server.endpoints import Endpoint
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

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *health.ENDPOINTS,
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
