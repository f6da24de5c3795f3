"""An answer that takes a while, for as long as somebody is there to hear it.

Whoever waits for work and hangs up must not be given any: it would lie with nobody until its lease is over. And a
server that is ending keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from holdfast.server.request import ApiRequest

T = TypeVar("T")


async def while_heard(asked: ApiRequest, answer: Coroutine[Any, Any, T]) -> T | None:
    """The answer. None, and nobody works on it any more, if the caller has hung up or the server is ending."""
    answering = asyncio.ensure_future(answer)
    leaving = [
        asyncio.ensure_future(wait_for_disconnect(asked.request.receive)),
        asyncio.ensure_future(asked.house.draining.wait()),
    ]
    try:
        await asyncio.wait([answering, *leaving], return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else None
    finally:
        for task in (answering, *leaving):
            task.cancel()
        await asyncio.wait([answering, *leaving])


async def wait_for_disconnect(receive: Receive) -> None:
    """Whoever asked does not listen any more."""
    while (await receive())["type"] != "http.disconnect":
        pass
