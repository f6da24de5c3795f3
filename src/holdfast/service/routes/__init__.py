"""Every endpoint there is, a file for each noun."""

from __future__ import annotations

from typing import Final

from holdfast.service.endpoints import Endpoint
from holdfast.service.routes import (
    access,
    agents,
    dead,
    health,
    jobs,
    journals,
    lately,
    looking,
    metrics,
    operating,
    pasts,
    people,
    registry,
    sessions,
    words,
    work,
    workers,
)

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *health.ENDPOINTS,
    *metrics.ENDPOINTS,
    *jobs.ENDPOINTS,
    *journals.ENDPOINTS,
    *pasts.ENDPOINTS,
    *looking.ENDPOINTS,
    *lately.ENDPOINTS,
    *words.ENDPOINTS,
    *people.ENDPOINTS,
    *dead.ENDPOINTS,
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
