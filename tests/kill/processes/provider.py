"""Provider: a server that speaks OpenAI's chat completions, with a log of its own of what it was asked.

A test says what the next requests are answered with: a status, or nothing at all until it is released.
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


class Asked(msgspec.Struct, frozen=True):
    """One line of the log."""

    question: str
    status: int
    at_us: int


class Provider:
    """`log` has every request in the order of arrival."""

    def __init__(self) -> None:
        self.log: list[Asked] = []
        self.url = ""
        self.failures: list[int] = []
        """The statuses of the next answers; 200 when there is none left."""
        self.headers: dict[str, str] = {}
        self.hangs = 0
        """So many of the next requests get no answer."""
        self._changed = asyncio.Condition()
        self._closed = asyncio.Event()

    def close(self) -> None:
        """Requests that hang are let go."""
        self._closed.set()

    @property
    def statuses(self) -> list[int]:
        return [asked.status for asked in self.log]

    async def until(self, seen: Callable[[], bool]) -> None:
        """Wait for the log to show it."""
        try:
            async with asyncio.timeout(PATIENCE_S), self._changed:
                await self._changed.wait_for(seen)
        except TimeoutError:
            raise AssertionError(f"the provider was asked {self.log}") from None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                int(line.partition(":")[2])
                for line in head.splitlines()
                if line.lower().startswith("content-length")
            )
            body = json.loads(await reader.readexactly(length))
            await self._answer(body, writer)
        writer.close()

    async def _answer(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        question = str(body["messages"][-1]["content"])
        async with self._changed:
            hangs = self.hangs > 0
            self.hangs -= hangs
            status = 0 if hangs else self.failures.pop(0) if self.failures else 200
            self.log.append(Asked(question, status, time.time_ns() // 1000))
            self._changed.notify_all()
        if hangs:
            await self._closed.wait()
            return
        said = _completion(question) if status == 200 else {"error": {"message": f"no: {status}"}}
        data = json.dumps(said).encode()
        headers = {
            "content-type": "application/json",
            "content-length": str(len(data)),
            "connection": "close",
        }
        headers |= {} if status == 200 else self.headers
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + data)
        await writer.drain()


def _completion(question: str) -> dict[str, Any]:
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-local",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": f"answer to {question}"},
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


@asynccontextmanager
async def providing() -> AsyncIterator[Provider]:
    """A provider that listens on this machine."""
    provider = Provider()
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await provider.serve(reader, writer)
        finally:
            connections.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    provider.url = f"http://{host}:{port}/v1"
    try:
        yield provider
    finally:
        server.close()
        provider.close()
        await asyncio.gather(*connections, return_exceptions=True)
