"""Job streams: the output of a job as server-sent events.

    id: 3.17                     the cursor: send it back as `Last-Event-ID`, and the stream continues after it
    event: chunk                 or `attempt_superseded`: drop the earlier output of this step
    data: {"stream": "out", …}

Periodic comments keep the connection alive. `event: end` has the final status of the job, and is the last event. A
stream that ends without it was cut off, or the server is shutting down: reconnect with the last id.
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
    """The job has ended."""

    status: Status


Speak = Callable[[], AsyncGenerator[bytes, None]]
"""Starts a stream: an async generator of encoded events."""


class Stream:
    """The response that sends events until there are no more, its reader disconnects, or the server drains."""

    def __init__(self, request: ApiRequest, speak: Speak) -> None:
        self._state = request.house
        self._principal = request.principal
        self._reader = request.principal.name
        self._speak = speak
        if self._state.streams.get(self._reader, 0) >= self._state.settings.streams_max:
            msg = f"{self._state.settings.streams_max} streams are open"
            raise Refusal(429, Unavailable(msg, hint="Close one, or watch several jobs one after the other."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = self._state
        state.streams[self._reader] = state.streams.get(self._reader, 0) + 1
        events = self._speak()
        leaving: list[asyncio.Task[Any]] = [
            asyncio.create_task(wait_for_disconnect(receive)),
            asyncio.create_task(state.draining.wait()),
            asyncio.create_task(_revoked(state, self._principal)),
        ]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._say(HEARTBEAT, send)  # so that the reader knows that it is connected
            await self._carry(events, leaving, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (OSError, TimeoutError):
            pass  # the reader has disconnected or does not read: it will reconnect with its last id
        finally:
            for task in leaving:
                task.cancel()
            await events.aclose()
            state.streams[self._reader] -= 1

    async def _carry(
        self, events: AsyncGenerator[bytes, None], leaving: list[asyncio.Task[Any]], send: Send
    ) -> None:
        coming: asyncio.Task[bytes | None] = asyncio.create_task(_next(events))
        try:
            while True:
                await asyncio.wait(
                    [coming, *leaving],
                    timeout=self._state.settings.heartbeat_s,
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
                    coming = asyncio.create_task(_next(events))
        finally:
            coming.cancel()
            await asyncio.wait([coming])

    async def _say(self, text: bytes, send: Send) -> None:
        """Sends the bytes. A reader that does not read for too long raises TimeoutError."""
        message: Message = {"type": "http.response.body", "body": text, "more_body": True}
        await asyncio.wait_for(send(message), self._state.settings.send_timeout_s)


async def words_of_job(
    state: House, job_id: str, *, after: str | None, stream: str | None
) -> AsyncGenerator[bytes, None]:
    """The output of the job, and its final status."""
    chunks = watch(state.store, job_id, after=after, stream=stream, scribe=state.scribe)
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield _event(chunk)
        status = (await state.store.jobs.head(job_id)).status
    except NotFound:
        return  # the job was removed meanwhile
    assert status in TERMINAL, "a watch ends when its job is over"
    yield b"event: end\ndata: " + encode_json(StreamEnd(status)) + b"\n\n"


def _event(chunk: Heard) -> bytes:
    kind = "attempt_superseded" if isinstance(chunk, AttemptSuperseded) else "chunk"
    return f"id: {chunk.cursor}\nevent: {kind}\ndata: ".encode() + encode_json(chunk) + b"\n\n"


async def _revoked(state: House, principal: Principal) -> None:
    """Waits until the reader's access ends."""
    while True:
        with suppress(HoldfastError):  # an unavailable store ends the stream elsewhere
            if not await state.gate.still(principal):
                return
        await asyncio.sleep(state.settings.recheck_s)


async def _next(events: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(events, None)
