"""Health endpoints."""

from __future__ import annotations

from typing import Final

from holdfast.model.access import AccessScope
from holdfast.model.time import to_iso
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.router import Endpoint
from holdfast.server.schemas import Health


async def health(request: ApiRequest) -> ApiResponse:
    """Health of the server, and what its store survives."""
    state = await _state(request)
    return ApiResponse(value=state, status=503 if state.status == "unavailable" else 200)


async def live(request: ApiRequest) -> ApiResponse:
    """Liveness: the process responds."""
    return ApiResponse(value=Health(status="ok", timestamp=_now(request)))


async def ready(request: ApiRequest) -> ApiResponse:
    """Readiness: the store accepts writes, and the server is not shutting down."""
    state = await _state(request)
    return ApiResponse(value=state, status=200 if state.status in {"ok", "degraded"} else 503)


async def _state(request: ApiRequest) -> Health:
    tier = str(request.store.tier)
    if request.house.draining.is_set():
        return Health(status="draining", timestamp=_now(request), tier=tier, degraded=("draining",))
    stops, warns = await request.house.pulse.feel()
    if stops:
        return Health(status="unavailable", timestamp=_now(request), tier=tier, degraded=stops)
    nats = request.house.nats
    if nats is not None and not nats.well:
        warns = (*warns, "nats")  # external agents are listed as last known; work does not depend on NATS
    return Health(status="degraded" if warns else "ok", timestamp=_now(request), tier=tier, degraded=warns)


def _now(request: ApiRequest) -> str:
    return to_iso(request.house.clock.wall_us())


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
