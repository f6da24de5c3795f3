"""Every endpoint there is, a file for each noun."""

from __future__ import annotations

from typing import Final

from holdfast.service.endpoints import Endpoint
from holdfast.service.routes import (
    agents,
    dead,
    health,
    jobs,
    journals,
    operating,
    people,
    sessions,
    words,
    workers,
)

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *health.ENDPOINTS,
    *jobs.ENDPOINTS,
    *journals.ENDPOINTS,
    *words.ENDPOINTS,
    *people.ENDPOINTS,
    *dead.ENDPOINTS,
    *sessions.ENDPOINTS,
    *agents.ENDPOINTS,
    *workers.ENDPOINTS,
    *operating.ENDPOINTS,
)
