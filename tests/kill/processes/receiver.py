"""Receiver: a server with a log of its own, which is the witness of what an application really did.

One request is one line of JSON, `{"call": "pay", "item": "a1", "key": "…"}`, and is answered with one line. The log has
a request as soon as it arrives. A test holds requests, which are answered when it releases them or not at all: so the
test chooses the moment at which the caller is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

PATIENCE_S = 30.0


class Request(msgspec.Struct, frozen=True):
    """One line of the log. `at_us` is wall time, as in journals."""

    call: str
    item: str
    key: str
    at_us: int


class Receiver:
    """`log` has every request in the order of arrival."""

    def __init__(self) -> None:
        self.log: list[Request] = []
        self.address = ""
        self._held: set[str] = set()
        self._changed = asyncio.Condition()

    # ── what a test says ──────────────────────────────────────────────────────────────────────────

    def hold(self, *items: str) -> None:
        """Requests for these items get no answer until `release`."""
        self._held |= set(items)

    async def release(self, *items: str) -> None:
        """Requests for these items, or for all, are answered, and so are those that come later."""
        async with self._changed:
            self._held -= set(items) or self._held
            self._changed.notify_all()

    async def until(self, seen: Callable[[], bool], what: str) -> None:
        """Wait for the log to show it."""
        try:
            async with asyncio.timeout(PATIENCE_S), self._changed:
                await self._changed.wait_for(seen)
        except TimeoutError:
            raise AssertionError(f"{what}: the receiver got {self.log}") from None

    async def until_arrived(self, *items: str, times: int = 1) -> None:
        """Wait for a request for each of these items."""
        await self.until(
            lambda: all(self.count(item) >= times for item in items), f"{', '.join(items)} never came"
        )

    # ── what the log says ─────────────────────────────────────────────────────────────────────────

    def count(self, item: str) -> int:
        """How many requests there were for this item."""
        return sum(request.item == item for request in self.log)

    def counts(self, call: str) -> dict[str, int]:
        """How many requests of this call there were for each item."""
        return {request.item: self.count(request.item) for request in self.log if request.call == call}

    def keys(self, call: str) -> dict[str, int]:
        """How many different idempotency keys the requests of this call had, for each item: 1 is one effect."""
        found: dict[str, set[str]] = {}
        for request in self.log:
            if request.call == call:
                found.setdefault(request.item, set()).add(request.key)
        return {item: len(keys) for item, keys in found.items()}

    def arrivals(self, item: str) -> list[int]:
        """When the requests for this item came."""
        return [request.at_us for request in self.log if request.item == item]

    # ── the server ────────────────────────────────────────────────────────────────────────────────

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        with contextlib.suppress(ConnectionError):
            asked: dict[str, Any] = json.loads(await reader.readline())
            writer.write(json.dumps(await self._answer(asked)).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _answer(self, asked: dict[str, Any]) -> Any:
        item = str(asked["item"])
        if asked["call"] == "probe":
            return self.count(item) > 0
        async with self._changed:
            self.log.append(Request(asked["call"], item, asked["key"], time.time_ns() // 1000))
            self._changed.notify_all()
            await self._changed.wait_for(lambda: item not in self._held)
        return f"{asked['call']} {item}"


@asynccontextmanager
async def serving(receiver: Receiver | None = None) -> AsyncIterator[Receiver]:
    """A receiver, this one if it is given, that listens on this machine."""
    receiver = Receiver() if receiver is None else receiver
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await receiver.serve(reader, writer)
        finally:
            connections.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    receiver.address = f"{host}:{port}"
    try:
        yield receiver
    finally:
        server.close()
        await receiver.release()
        await asyncio.gather(*connections, return_exceptions=True)
