"""A wire that loses answers: the server has done it, and the caller does not hear of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Losing:
    """Passes bytes on. The answer to a request whose path ends like this is lost, so many times."""

    def __init__(self) -> None:
        self.port = 0
        self.to = 0
        self.lost: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        """Requests that are on their way to the server, by the last part of their path."""
        self._lose: Counter[str] = Counter()
        self._open: set[asyncio.Task[None]] = set()

    def lose(self, ending: str, times: int = 1) -> None:
        self._lose[ending] = times

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", self.to)
        losing: list[str] = []

        async def ask() -> None:
            while data := await reader.read(65536):
                path = data.split(b" ", 2)[1].decode() if data[:5] in {b"POST ", b"GET /"} else ""
                ending = next((one for one, left in self._lose.items() if left and path.endswith(one)), None)
                if ending is not None:
                    self._lose[ending] -= 1
                    losing.append(ending)
                back.write(data)
                await back.drain()
                self.passed["/" + path.rpartition("/")[2]] += 1

        async def answer() -> None:
            while data := await there.read(65536):
                if losing:
                    self.lost[losing[0]] += 1
                    return
                writer.write(data)
                await writer.drain()

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
async def losing() -> AsyncIterator[Losing]:
    wire = Losing()
    server = await asyncio.start_server(wire.connected, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        await wire.close()
        await server.wait_closed()
