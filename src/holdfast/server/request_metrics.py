"""Request metrics: counts and times every request when its response begins. Routes are those of the table, so there
are few."""

from __future__ import annotations

import time
from typing import Final

from starlette.types import Message, Scope, Send

from holdfast.server.metrics.meter import OTHER, Metrics

ROUTE: Final = "holdfast.route"
CODE: Final = "holdfast.code"
"""The keys of a request's scope for its endpoint and for the code of its problem."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def measure_responses(metrics: Metrics, scope: Scope, send: Send) -> Send:
    """The same `send`, with metrics."""
    began = time.perf_counter()
    method = scope["method"] if scope["method"] in _METHODS else OTHER

    async def watched(message: Message) -> None:
        if message["type"] == "http.response.start":
            took = time.perf_counter() - began
            route = scope.get(ROUTE, "none")
            metrics.record_response(method, route, message["status"], took, scope.get(CODE))
        await send(message)

    return watched
