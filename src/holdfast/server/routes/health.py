"""How the service is: health and statistics."""

from __future__ import annotations

from typing import Final

from holdfast.model.access import AccessScope
from holdfast.model.time import to_iso
from holdfast.server.endpoints import Endpoint
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.schemas import Health


async def health(asked: ApiRequest) -> ApiResponse:
    """Health of the server, and what its store survives."""
    state = await _state(asked)
    return ApiResponse(value=state, status=503 if state.status == "unavailable" else 200)


async def live(asked: ApiRequest) -> ApiResponse:
    """Liveness: the process responds."""
    return ApiResponse(value=Health(status="ok", timestamp=_now(asked)))


async def ready(asked: ApiRequest) -> ApiResponse:
    """Readiness: the store accepts writes, and the server is not shutting down."""
    state = await _state(asked)
    return ApiResponse(value=state, status=200 if state.status in {"ok", "degraded"} else 503)


async def _state(asked: ApiRequest) -> Health:
    tier = str(asked.store.tier)
    if asked.house.draining.is_set():
        return Health(status="draining", timestamp=_now(asked), tier=tier, degraded=("draining",))
    stops, warns = await asked.house.pulse.feel()
    if stops:
        return Health(status="unavailable", timestamp=_now(asked), tier=tier, degraded=stops)
    nats = asked.house.nats
    if nats is not None and not nats.well:
        warns = (*warns, "nats")  # agents elsewhere are listed as last known; work does not depend on it
    return Health(status="degraded" if warns else "ok", timestamp=_now(asked), tier=tier, degraded=warns)


def _now(asked: ApiRequest) -> str:
    return to_iso(asked.house.clock.wall_us())


HEALTH: Final = (
    Endpoint(
        method="GET",
        path="/health",
        handle=health,
        answers=Health,
        statuses=(200, 503),
        scope=AccessScope.PUBLIC,
    ),
    Endpoint(method="GET", path="/health/live", handle=live, answers=Health, scope=AccessScope.PUBLIC),
    Endpoint(
        method="GET",
        path="/health/ready",
        handle=ready,
        answers=Health,
        statuses=(200, 503),
        scope=AccessScope.PUBLIC,
    ),
)

ENDPOINTS: Final = (*HEALTH,)
