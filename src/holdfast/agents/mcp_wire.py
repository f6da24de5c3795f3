"""MCP connection: a dedicated task opens and closes the client.

The client of the `mcp` package must be closed by the task that opened it, and calls come from the tasks of many jobs:
so one task, which belongs to no job, opens it, waits, and closes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from holdfast.agents.secrets import Secret, resolve_references
from holdfast.engine import task_scopes
from holdfast.errors import InvalidSetting, Refused

CONNECT_S: Final = 30.0

_DIES_WITH_US: Final = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); "
    "os.getppid() == int(sys.argv[1]) or os._exit(1); os.execvp(sys.argv[2], sys.argv[2:])"
)
"""What the process of a server runs before it executes the server: it asks the kernel to kill it together with its
worker. A well-behaved server also ends at the end of its stdin; this is for the others."""


class Post:
    """Counts the requests of one call: `sent` may have reached the server, `unsent` failed to connect."""

    def __init__(self) -> None:
        self.sent = 0
        self.unsent = 0

    @property
    def reached_nobody(self) -> bool:
        return self.unsent > 0 and self.sent == 0


POST: Final[contextvars.ContextVar[Post | None]] = contextvars.ContextVar("holdfast_mcp_post", default=None)
"""The call that a request belongs to: the `mcp` package sends each request in the context of its caller."""


class Target(msgspec.Struct, frozen=True):
    """The address of a server, or the command that starts it."""

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    env: dict[str, str | Secret] = {}
    cwd: str | None = None
    headers: dict[str, str | Secret] = {}


class McpConnection:
    """A client of one server, for one event loop. It connects at once; `client` waits for the connection."""

    def __init__(self, target: Target) -> None:
        loop = asyncio.get_running_loop()
        self._target = target
        self._ready: asyncio.Future[Any] = loop.create_future()
        self._lost = asyncio.Event()
        self._let_go = asyncio.Event()
        self._task = task_scopes.create_detached_task(loop, self._hold(), f"holdfast-mcp-{target.name}")

    @property
    def is_over(self) -> bool:
        """Whether the connection can no longer send."""
        return self._lost.is_set() or self._let_go.is_set() or self._task.done()

    async def client(self) -> Any:
        """The client, as soon as the server has responded; raises Refused if it does not."""
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        self._let_go.set()
        await asyncio.wait([self._task])

    async def _hold(self) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(CONNECT_S):
                    client = await stack.enter_async_context(self._opened())
                self._ready.set_result(client)
                await self._let_go.wait()
        except BaseException as error:  # the waiting caller must get any error
            if not self._ready.done():
                self._ready.set_exception(_unreachable(self._target, error))
                self._ready.exception()  # retrieved: perhaps no caller waits any more
            if not isinstance(error, Exception):
                raise

    def _opened(self) -> Any:
        try:
            from mcp import Client
        except ImportError:
            msg = "the package for MCP is not installed"
            raise InvalidSetting(msg, hint='pip install "holdfast[mcp]"') from None
        return Client(self._transport())

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        """The streams to and from the server. A relay task in between notices a lost connection while no call is
        active."""
        import anyio

        async with contextlib.AsyncExitStack() as stack:
            theirs, write = await stack.enter_async_context(self._streams())
            ours, read = anyio.create_memory_object_stream[Any](0)

            async def pass_on() -> None:
                async with ours, theirs:
                    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        async for message in theirs:
                            await ours.send(message)
                self._lost.set()

            listening = asyncio.get_running_loop().create_task(pass_on())
            try:
                yield read, write
            finally:
                listening.cancel()
                await asyncio.wait([listening])
                read.close()

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[tuple[Any, Any]]:
        target = self._target
        if target.url:
            import httpx2
            from mcp.client.streamable_http import streamable_http_client

            # A response may take long: each call has its own timeout.
            timeout = httpx2.Timeout(CONNECT_S, read=None)
            async with (
                _noting()(headers=resolve_references(target.headers), timeout=timeout) as http,
                streamable_http_client(target.url, http_client=http) as streams,
            ):
                yield streams
            return
        from mcp.client.stdio import StdioServerParameters, stdio_client

        command, *arguments = _with_us(target.command)
        parameters = StdioServerParameters(
            command=command, args=arguments, env=resolve_references(target.env), cwd=target.cwd
        )
        async with stdio_client(parameters) as streams:
            yield streams


def _noting() -> Any:
    """An HTTP client that counts the requests that failed to connect."""
    import httpx2

    class Noting(httpx2.AsyncClient):
        async def send(self, *args: Any, **options: Any) -> httpx2.Response:
            post = POST.get() or Post()
            try:
                response = await super().send(*args, **options)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                post.unsent += 1
                raise
            except BaseException:
                post.sent += 1
                raise
            post.sent += 1
            return response

    return Noting


def _with_us(command: tuple[str, ...]) -> tuple[str, ...]:
    if sys.platform != "linux":
        return command
    return (sys.executable, "-I", "-S", "-c", _DIES_WITH_US, str(os.getpid()), *command)


def _unreachable(target: Target, error: BaseException) -> Exception:
    if isinstance(error, InvalidSetting):
        return error
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    msg = f"the MCP server {target.name} cannot be reached: {type(error).__name__}: {error}"
    return Refused(msg, hint="Nothing was sent. Check its command or its url.")
