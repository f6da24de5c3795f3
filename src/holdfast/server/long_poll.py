"""Long polling: a response that takes a while is computed only as long as the client is connected.

A client that waits for work and disconnects must not be given any: the work would be held without an agent until its
lease expires. And a server that shuts down ends all waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from holdfast.server.request import ApiRequest

T = TypeVar("T")


async def while_heard(request: ApiRequest, answer: Coroutine[Any, Any, T]) -> T | None:
    """The result of `answer`; None, with `answer` cancelled, if the client disconnects or the server shuts down."""
    answering = asyncio.ensure_future(answer)
    leaving = [
        asyncio.ensure_future(wait_for_disconnect(request.request.receive)),
        asyncio.ensure_future(request.house.draining.wait()),
    ]
    try:
        await asyncio.wait([answering, *leaving], return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else None
    finally:
        for task in (answering, *leaving):
            task.cancel()
        await asyncio.wait([answering, *leaving])


async def wait_for_disconnect(receive: Receive) -> None:
    """Waits until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
