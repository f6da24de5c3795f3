"""Stream relay: passes a streamed response to its reader and to the watchers of the job, and records it.

The reader gets each piece as it arrives, except the last one: that is held back until the whole response is durable,
so no code acts on a response that a crash could take back. When a reader leaves early, the part that it got is
recorded, as a part. A replay delivers that part; a reader that then continues beyond it gets an error, and the model
is requested anew. A connection that breaks in the middle is an error for the reader, and recorded as one: a request
is never repeated behind a reader that has already read half of the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from holdfast.agents.models import sse
from holdfast.agents.models.provider_response import Unreachable
from holdfast.agents.models.wire_format import Gathering
from holdfast.engine.model_requests import ModelAnswer, ModelCall
from holdfast.model.limits import BLOB_BYTES_MAX

LEFT: Final = "its reader left here the first time"
UNKEPT: Final = "DecodingError"


class Flow:
    """Relays one streamed response. Whether the reader reads it to its end or closes it before: a response is
    recorded."""

    def __init__(
        self,
        asking: ModelCall,
        pieces: AsyncIterator[bytes],
        gathering: Gathering,
        answer: Callable[[ModelCall, Any], ModelAnswer],
        keep: Callable[[ModelAnswer], Awaitable[None]],
        stack: AsyncExitStack,
    ) -> None:
        self._asking = asking
        self._pieces = pieces
        self._gathering = gathering
        self._answer = answer
        self._keep = keep
        self._stack = stack
        self._reader = sse.SseReader()
        self._settled = False
        self._size = 0

    async def stream(self) -> AsyncIterator[bytes]:
        """The pieces; the last one when the response is durable."""
        try:
            while (piece := await self._next()) is not None:
                self._hear(piece)
                if self._gathering.whole or self._gathering.error is not None:
                    self._must_be_kept(await self._settle())
                yield piece
            if not self._settled and not self._gathering.complete:
                raise Unreachable("RemoteProtocolError", "the stream ended before the answer did")
            self._must_be_kept(await self._settle())
        except asyncio.CancelledError:
            if not self._settled:
                self._settled = True
                await self._asking.record_cancelled()
            raise
        except Exception as error:
            await self._break(error)
            raise

    async def _next(self) -> bytes | None:
        with self._asking.working():
            return await anext(self._pieces, None)

    def _hear(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > BLOB_BYTES_MAX:
            raise Unreachable("DecodingError", f"an answer of more than {BLOB_BYTES_MAX:,} bytes")
        for name, data in self._reader.feed(piece):
            streamed = self._gathering.take(name, data)
            if streamed is not None and streamed.text:
                self._asking.say(streamed.text, streamed.stream)

    async def _settle(self) -> ModelAnswer | None:
        """Records the response, unless that is done."""
        if self._settled:
            return None
        self._settled = True
        error = self._gathering.error
        if error is not None:
            await self._asking.record_answer(ModelAnswer(error={"status": 200, "body": error, "headers": {}}))
            return None
        answer = self._answer(self._asking, self._gathering.message())
        if answer.error is not None:
            message = str(answer.error["body"]["error"]["message"])
            answer = ModelAnswer(usage=answer.usage, error={"kind": UNKEPT, "message": message})
        await self._asking.record_answer(answer)
        if self._gathering.complete:
            await self._keep(answer)
        return answer

    def _must_be_kept(self, answer: ModelAnswer | None) -> None:
        """Raises if the response could not be stored: the reader gets the same error now as in every replay."""
        if answer is not None and answer.error is not None:
            raise Unreachable(answer.error["kind"], answer.error["message"])

    async def _break(self, error: Exception) -> None:
        self._asking.note_error(error)
        if not self._settled and not self._asking.stopped:
            self._settled = True
            kind = getattr(error, "kind", "RemoteProtocolError")
            await self._asking.record_answer(ModelAnswer(error={"kind": kind, "message": str(error)}))

    async def _left(self) -> None:
        """The reader left early. Records the part that it got, for a replay that reads as far."""
        if self._settled:
            return
        if self._gathering.complete or self._gathering.error is not None:
            await self._settle()
            return
        self._settled = True
        part = self._answer(self._asking, self._gathering.message())
        if part.error is None:
            error = {"kind": "ReadError", "message": LEFT, "part": part.response}
            part = ModelAnswer(usage=part.usage, error=error)
        await self._asking.record_answer(part)

    async def close(self) -> None:
        """Stops reading, and releases the connection."""
        try:
            if not self._asking.stopped:
                await self._left()
        finally:
            with self._asking.leaving():
                await self._stack.aclose()
