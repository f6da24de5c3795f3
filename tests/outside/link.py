"""A link between an agent and the server that can be cut: nothing gets through in either direction, and nobody is told.

What was on its way when it was cut arrives when it is healed, late, as TCP would send it again. Between the two both
ends believe that they are connected.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Link:
    """Passes bytes on, unless it is cut."""

    def __init__(self) -> None:
        self.port = 0
        self.to = 0
        self.passed: Counter[str] = Counter()
        """Requests that have gone to the server, by the last part of their path."""
        self.answered: Counter[int] = Counter()
        """Answers that have come back, by status."""
        self.stuck: Counter[str] = Counter()
        """Requests that ran into the cut."""
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._open: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        self._flowing.clear()

    def heal(self) -> None:
        self._flowing.set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", self.to)

        async def ask() -> None:
            while data := await reader.read(65536):
                found = re.match(rb"[A-Z]+ [^ ]*(/[^ /]*) HTTP", data)
                path = found[1].decode() if found is not None else ""
                if not self._flowing.is_set():
                    self.stuck[path] += 1
                    await self._flowing.wait()
                back.write(data)
                await back.drain()
                self.passed[path] += 1

        async def answer() -> None:
            while data := await there.read(65536):
                await self._flowing.wait()
                with suppress(OSError):  # whoever asked may have given up
                    writer.write(data)
                    await writer.drain()
                found = re.match(rb"HTTP/1.1 (\d+) ", data)
                self.answered[0 if found is None else int(found[1])] += 1

        both = {asyncio.create_task(ask()), asyncio.create_task(answer())}
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


@asynccontextmanager
async def linked() -> AsyncIterator[Link]:
    link = Link()
    server = await asyncio.start_server(link.connected, "127.0.0.1", 0)
    link.port = server.sockets[0].getsockname()[1]
    try:
        yield link
    finally:
        server.close()
        await link.close()
        await server.wait_closed()
