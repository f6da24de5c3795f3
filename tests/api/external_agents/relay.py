"""A wire between an agent and the server, on a port of its own. What becomes of the bytes on it, subclasses say."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, TypeVar

Carry: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
"""Carries what comes in to where it goes, until there is no more."""


class Relay(ABC):
    """`port` is where it listens, `to` where the server is."""

    def __init__(self) -> None:
        self.port = 0
        self.to = 0
        self._open: set[asyncio.Task[None]] = set()

    @abstractmethod
    def carriers(self) -> tuple[Carry, Carry]:
        """What carries requests, and what carries answers, of one connection."""

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", self.to)
        ask, answer = self.carriers()
        both = {asyncio.create_task(ask(reader, back)), asyncio.create_task(answer(there, writer))}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            writer.close()
            back.close()
            self._open.discard(task)

    async def close(self) -> None:
        for task in list(self._open):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


R = TypeVar("R", bound=Relay)


@asynccontextmanager
async def listening(relay: R) -> AsyncIterator[R]:
    server = await asyncio.start_server(relay.connected, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        await relay.close()
        await server.wait_closed()
