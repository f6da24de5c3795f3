"""A wire that can be cut: a TCP proxy on loopback between us and PostgreSQL.

    async with Proxy(server.port) as wire:
        store = await open_postgres(server.tcp_url("first", port=wire.port), ...)
        cut = wire.arm(Cut(Side.SERVER, after=2))
        await store.jobs.submit(draft)                  # the third message of the server never arrives
        assert cut.sprung

It knows where one message ends and the next begins, so a cut lies exactly where the test says:

    a message of the client    it never reaches the server, and both ends are reset: a request that was lost
    a message of the server    the server goes on until it has answered in full, then the client is reset: what was
                               asked for was done, and nobody was told. On a COMMIT that is the one outcome a client
                               cannot know

`torn` lets half of that message through first. `passed` lets all of a client's message through and resets the client
at once, so that it is back while the server is still at it. Besides: `stall` (both ends stay connected and nothing
moves), `reset` (every connection at once) and `refuse` (no new ones).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from types import TracebackType
from typing import Final, Self

READY_FOR_QUERY: Final = b"Z"
FLUSH: Final = b"H"
DESCRIBED: Final = (b"T", b"n", b"E")
"""A client that flushes instead of syncing asked for a description, and gets one, none, or an error."""
LENGTH_BYTES: Final = 4
CHUNK_BYTES: Final = 65_536
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Side(Enum):
    """Whose message it is."""

    CLIENT = "client"
    SERVER = "server"


Witness = Callable[[], Awaitable[None]]


class Cut:
    """A place to cut at: after so many more messages of one side, on whatever connection they come.

    Args:
        since: Counting begins with the first message of the client that contains these bytes.
        torn: Half of the message gets through.
        passed: The client's message reaches the server, and the client is reset without waiting for what comes of it.
        witness: Called when the cut is certain and before the client learns of it: the time to look at what the
            server has done.
    """

    def __init__(
        self,
        side: Side,
        after: int = 0,
        *,
        since: bytes = b"",
        torn: bool = False,
        passed: bool = False,
        witness: Witness | None = None,
    ) -> None:
        self.side = side
        self.left = after
        self.since = since
        self.torn = torn
        self.passed = passed
        self.witness = witness
        self.sprung = False


class Proxy:
    """Passes bytes on to a port of this machine, until told otherwise."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.connections = 0
        self._cuts: deque[Cut] = deque()
        self._wires: set[_Wire] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False
        self._listener: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where the client connects to."""
        assert self._listener is not None, "the proxy is not started"
        address: tuple[str, int] = self._listener.sockets[0].getsockname()
        return address[1]

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        self.resume()
        self.reset()
        await asyncio.gather(*(wire.ended.wait() for wire in self._wires))
        await self._listener.wait_closed()

    # ── what can be done to it ────────────────────────────────────────────────────────────────────

    def arm(self, *cuts: Cut) -> Cut:
        """The cuts happen one after the other; returns the first. A cut begins to count when it is its turn."""
        self._cuts = deque(cuts)
        return cuts[0]

    def disarm(self) -> None:
        self._cuts.clear()

    def reset(self) -> None:
        """Both ends of every connection see it reset."""
        for wire in list(self._wires):
            wire.reset()

    def refuse(self, refusing: bool = True) -> None:
        """New connections are reset at once, or no longer."""
        self._refusing = refusing

    def stall(self) -> None:
        """Nothing moves in either direction, and nobody is told."""
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    # ── how ───────────────────────────────────────────────────────────────────────────────────────

    def due(self, side: Side, message: bytes) -> Cut | None:
        """The cut that this message runs into."""
        cut = self._cuts[0] if self._cuts else None
        if cut is not None and side is Side.CLIENT and cut.since and cut.since in message:
            cut.since = b""
        if cut is None or cut.side is not side or cut.since:
            return None
        if cut.left > 0:
            cut.left -= 1
            return None
        cut.sprung = True
        self._cuts.popleft()
        return cut

    async def flow(self) -> None:
        await self._flowing.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._refusing:
            _reset(writer)
            return
        try:
            server = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            _reset(writer)
            return
        wire = _Wire(self, (reader, writer), server)
        self._wires.add(wire)
        try:
            await wire.run()
        finally:
            self._wires.discard(wire)


_End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Wire:
    """One client's connection and ours to the server."""

    def __init__(self, proxy: Proxy, client: _End, server: _End) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._lost: Cut | None = None
        self._answered = asyncio.Event()
        self._asked = b""
        self.ended = asyncio.Event()

    def reset(self) -> None:
        _reset(self._to_client)
        _reset(self._to_server)

    async def run(self) -> None:
        """Messages go both ways until either end is gone."""
        pumps = [asyncio.ensure_future(self._requests()), asyncio.ensure_future(self._replies())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.reset()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self.ended.set()

    async def _requests(self) -> None:
        messages = Messages(begins_untyped=True)
        while data := await _read(self._from_client):
            for message in messages.feed(data):
                await self._proxy.flow()
                self._asked = message[:1]
                cut = self._proxy.due(Side.CLIENT, message)
                if cut is None:
                    await _write(self._to_server, message)
                elif cut.passed:
                    self._lost = cut
                    await _write(self._to_server, message)
                    await _called(cut.witness)
                    _reset(self._to_client)
                    # The server's end stays: with a reset it might never read what it was sent.
                    await self._answered.wait()
                    return
                else:
                    if cut.torn:
                        await _write(self._to_server, message[: len(message) // 2])
                    await _called(cut.witness)
                    return

    async def _replies(self) -> None:
        messages = Messages()
        while data := await _read(self._from_server):
            for message in messages.feed(data):
                await self._proxy.flow()
                if self._lost is None:
                    self._lost = self._proxy.due(Side.SERVER, message)
                    if self._lost is None:
                        await _write(self._to_client, message)
                        continue
                    if self._lost.torn:
                        await _write(self._to_client, message[: len(message) // 2])
                if self._is_last(message):
                    if self._lost.side is Side.SERVER:
                        await _called(self._lost.witness)
                    self._answered.set()
                    return

    def _is_last(self, message: bytes) -> bool:
        """Whether the server has said all it has to say to what it was asked."""
        kind = message[:1]
        return kind == READY_FOR_QUERY or (self._asked == FLUSH and kind in DESCRIBED)


class Messages:
    """Bytes in, whole messages out: a type byte, then a length that counts itself. A client's first has no type."""

    def __init__(self, *, begins_untyped: bool = False) -> None:
        self._rest = b""
        self._untyped = begins_untyped

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._rest += data
        while True:
            before = 0 if self._untyped else 1
            if len(self._rest) < before + LENGTH_BYTES:
                return
            size = before + int.from_bytes(self._rest[before : before + LENGTH_BYTES])
            if len(self._rest) < size:
                return
            message, self._rest = self._rest[:size], self._rest[size:]
            self._untyped = False
            yield message


async def _called(witness: Witness | None) -> None:
    if witness is not None:
        await witness()


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(CHUNK_BYTES)
    except OSError:
        return b""


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(OSError):
        writer.write(data)
        await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    end: socket.socket | None = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        if end is not None and end.fileno() >= 0:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
