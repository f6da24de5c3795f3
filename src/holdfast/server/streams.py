"""What a job says, as server-sent events.

    id: 3.17                     the cursor: send it back as `Last-Event-ID`, and the stream goes on behind it
    event: chunk                 or `attempt_superseded`: throw away what this step said before
    data: {"stream": "out", …}

A comment now and then keeps the connection alive. `event: end` says how the job ended, and is the last. A stream that
stops without it was cut off, or the server goes away: ask again, with the last id.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any, Final

import msgspec
from starlette.types import Message, Receive, Scope, Send

from holdfast.engine.streams import Heard, watch
from holdfast.errors import HoldfastError, NotFound, Unavailable
from holdfast.model.states import TERMINAL, Status
from holdfast.model.streams import AttemptSuperseded
from holdfast.server.long_poll import wait_for_disconnect
from holdfast.server.origin_checks import Principal
from holdfast.server.problems import Refusal
from holdfast.server.request import ApiRequest, House
from holdfast.server.responses import encode_json

HEARTBEAT: Final = b": still here\n\n"
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class StreamEnd(msgspec.Struct, frozen=True):
    """The job is over."""

    status: Status


Speak = Callable[[], AsyncGenerator[bytes, None]]
"""Begins to speak: one event after the other, as it goes over the wire."""


class Stream:
    """The response that carries events until there are no more, its reader is gone, or the server is to end."""

    def __init__(self, asked: ApiRequest, speak: Speak) -> None:
        self._house = asked.house
        self._principal = asked.principal
        self._reader = asked.principal.name
        self._speak = speak
        if self._house.streams.get(self._reader, 0) >= self._house.settings.streams_max:
            msg = f"{self._house.settings.streams_max} streams are open"
            raise Refusal(429, Unavailable(msg, hint="Close one, or watch several jobs one after the other."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        house = self._house
        house.streams[self._reader] = house.streams.get(self._reader, 0) + 1
        words = self._speak()
        leaving: list[asyncio.Task[Any]] = [
            asyncio.create_task(wait_for_disconnect(receive)),
            asyncio.create_task(house.draining.wait()),
            asyncio.create_task(_revoked(house, self._principal)),
        ]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._say(HEARTBEAT, send)  # so that the reader knows that it is heard
            await self._carry(words, leaving, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (OSError, TimeoutError):
            pass  # the reader is gone, or takes nothing: it will ask again, with its last id
        finally:
            for task in leaving:
                task.cancel()
            await words.aclose()
            house.streams[self._reader] -= 1

    async def _carry(
        self, words: AsyncGenerator[bytes, None], leaving: list[asyncio.Task[Any]], send: Send
    ) -> None:
        coming: asyncio.Task[bytes | None] = asyncio.create_task(_next(words))
        try:
            while True:
                await asyncio.wait(
                    [coming, *leaving],
                    timeout=self._house.settings.heartbeat_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if any(task.done() for task in leaving):
                    return
                if not coming.done():
                    await self._say(HEARTBEAT, send)
                elif (event := coming.result()) is None:
                    return
                else:
                    await self._say(event, send)
                    coming = asyncio.create_task(_next(words))
        finally:
            coming.cancel()
            await asyncio.wait([coming])

    async def _say(self, text: bytes, send: Send) -> None:
        """The text is on its way. A reader that takes nothing for too long is given up."""
        message: Message = {"type": "http.response.body", "body": text, "more_body": True}
        await asyncio.wait_for(send(message), self._house.settings.send_timeout_s)


async def words_of_job(
    house: House, job_id: str, *, after: str | None, stream: str | None
) -> AsyncGenerator[bytes, None]:
    """What the job says, and how it ended."""
    words = watch(house.store, job_id, after=after, stream=stream, scribe=house.scribe)
    try:
        async with aclosing(words):
            async for heard in words:
                yield _event(heard)
        status = (await house.store.jobs.head(job_id)).status
    except NotFound:
        return  # it was removed while we read: there is no more of it
    assert status in TERMINAL, "a watch ends when its job is over"
    yield b"event: end\ndata: " + encode_json(StreamEnd(status)) + b"\n\n"


def _event(heard: Heard) -> bytes:
    kind = "attempt_superseded" if isinstance(heard, AttemptSuperseded) else "chunk"
    return f"id: {heard.cursor}\nevent: {kind}\ndata: ".encode() + encode_json(heard) + b"\n\n"


async def _revoked(house: House, principal: Principal) -> None:
    """The reader may not read any more."""
    while True:
        with suppress(HoldfastError):  # a store that is away ends the stream by itself
            if not await house.gate.still(principal):
                return
        await asyncio.sleep(house.settings.recheck_s)


async def _next(words: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(words, None)
