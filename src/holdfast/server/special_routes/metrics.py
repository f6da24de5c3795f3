"""Prometheus metrics endpoint."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp

from holdfast.model.access import AccessScope
from holdfast.server.metrics.meter import CONTENT_TYPE
from holdfast.server.request import ApiRequest
from holdfast.server.router import Endpoint


async def metrics(request: ApiRequest) -> ASGIApp:
    """Metrics of this process and of the store, for Prometheus."""
    state = request.house
    await state.gauges.look()
    return Response(state.metrics.text(), media_type=CONTENT_TYPE)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/metrics",
        handle=metrics,
        answers=str,
        media="text/plain",
        scope=AccessScope.READ,
        shared=True,
    ),
)
