"""How the service is: health, statistics, and its own description."""

from __future__ import annotations

from typing import Any, Final

from holdfast.client.records import Stats
from holdfast.errors import HoldfastError
from holdfast.model.instants import to_iso
from holdfast.service.answers import Answer
from holdfast.service.asked import Asked
from holdfast.service.endpoints import Endpoint
from holdfast.service.shapes import Health


async def health(asked: Asked) -> Answer:
    """How the service is, and what its store survives."""
    state = await _state(asked)
    return Answer(value=state, status=503 if state.status == "unavailable" else 200)


async def live(asked: Asked) -> Answer:
    """The process answers."""
    return Answer(value=Health(status="ok", timestamp=_now(asked)))


async def ready(asked: Asked) -> Answer:
    """The service takes requests: its store answers, and it is not about to end."""
    state = await _state(asked)
    return Answer(value=state, status=200 if state.status == "ok" else 503)


async def stats(asked: Asked) -> Answer:
    """How many jobs have each status."""
    return Answer(value=await asked.client.stats())


async def openapi(_asked: Asked) -> Answer:
    """This document."""
    from holdfast.service.openapi import served

    return Answer(value=served(), tagged=True)


async def _state(asked: Asked) -> Health:
    tier = str(asked.store.tier)
    if asked.house.draining.is_set():
        return Health(status="draining", timestamp=_now(asked), tier=tier, degraded=("draining",))
    try:
        await asked.store.info()
    except HoldfastError as error:
        return Health(status="unavailable", timestamp=_now(asked), tier=tier, degraded=(error.code,))
    return Health(status="ok", timestamp=_now(asked), tier=tier)


def _now(asked: Asked) -> str:
    return to_iso(asked.house.clock.wall_us())


ENDPOINTS: Final = (
    Endpoint(method="GET", path="/health", handle=health, answers=Health, statuses=(200, 503)),
    Endpoint(method="GET", path="/health/live", handle=live, answers=Health),
    Endpoint(method="GET", path="/health/ready", handle=ready, answers=Health, statuses=(200, 503)),
    Endpoint(method="GET", path="/api/stats", handle=stats, answers=Stats),
    Endpoint(
        method="GET", path="/api/openapi.json", handle=openapi, answers=dict[str, Any], statuses=(200, 304)
    ),
)
