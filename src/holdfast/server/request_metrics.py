"""Every request counted and timed where its answer begins. Routes are lines of the table, so there are few."""

from __future__ import annotations

import time
from typing import Final

from starlette.types import Message, Scope, Send

from holdfast.server.metrics.meter import OTHER, Metrics

ROUTE: Final = "holdfast.route"
CODE: Final = "holdfast.code"
"""Where a request's scope says which endpoint it met, and the code of the problem that it got."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def measure_responses(metrics: Metrics, scope: Scope, send: Send) -> Send:
    """The same way out, watched."""
    began = time.perf_counter()
    method = scope["method"] if scope["method"] in _METHODS else OTHER

    async def watched(message: Message) -> None:
        if message["type"] == "http.response.start":
            took = time.perf_counter() - began
            route = scope.get(ROUTE, "none")
            metrics.record_response(method, route, message["status"], took, scope.get(CODE))
        await send(message)

    return watched
