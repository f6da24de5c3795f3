"""Header limits: closes a connection whose request head is too large or too slow.

Uvicorn reads a head of any length, for any time. Nothing of it reaches the application before it is complete, so the
application could not reject it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.model.limits import HEADER_BYTES_MAX

HEAD_TIMEOUT_S: Final = 10.0
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/problem+json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
)
_PROBLEM: Final = (
    b'{"type":"urn:holdfast:error:not_allowed","title":"Not allowed","status":431,"code":"not_allowed",'
    b'"detail":"the headers are too large","hint":"Send what is large in the body.","request_id":""}'
)


class Bounded(HttpToolsProtocol):
    """HTTP/1.1 with a size limit and a time limit for request heads."""

    head_timeout_s = HEAD_TIMEOUT_S

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._moves = 0
        self._head_bytes = 0
        self._in_head = True
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        if self._in_head and self._deadline is None:
            self._await_head()
        moves = self._moves
        super().data_received(data)
        if not self._in_head or self._moves != moves:
            return  # part of it was a body, or the end of a head
        self._head_bytes += len(data)
        if self._head_bytes > HEADER_BYTES_MAX and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE % (len(_PROBLEM), _PROBLEM))
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._moves += 1
        self._head_bytes = 0
        self._came()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head = True
        self._moves += 1
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._came()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(self.head_timeout_s, self._too_slow)

    def _came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self._in_head and not self.transport.is_closing():
            self.transport.close()
