"""Connection pool: connections to one server, opened when needed and kept for the next user.

asyncpg has a pool, and it does more than a store needs: it hands out proxies, guards every call of them, and resets
each returned connection, which costs a good part of a small append. Here idle connections lie on a stack. A task that
takes a connection uses it alone. The connection returns to the stack only if it is certain to be between two
statements: after a clean end, or after the server reported an error. After anything else (a lost server, a cancelled
task) it is terminated, because the state of the protocol is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, TypeAlias

import asyncpg

from holdfast.errors import HoldfastError
from holdfast.store.executor import RunAgain

IDLE_S: Final = 300.0
"""A connection that was idle for this long is closed."""

_BETWEEN_STATEMENTS: Final = (HoldfastError, RunAgain, asyncpg.PostgresError)
"""After these the server waits for the next statement."""

Connection: TypeAlias = "asyncpg.Connection[Any]"


class AcquiredConnection:
    """Context manager around a connection. A class, because a generator would cost more than the rest of it."""

    __slots__ = ("_connection", "_connections")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def __aenter__(self) -> Connection:
        self._connection = await self._connections.take()
        return self._connection

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._connections.give_back(self._connection, error)


class Connections:
    """At most `most` connections at a time; a further task waits."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], *, most: int) -> None:
        self._connect = connect
        self._most = most
        self._free = asyncio.Semaphore(most)
        self._idle: deque[tuple[Connection, float]] = deque()
        self._used: set[Connection] = set()
        self._closed = False
        self.look: Callable[[Connection], Awaitable[None]] | None = None
        """Called with a connection before its first use, and before any use while `is_stale()`."""
        self.is_stale: Callable[[], bool] = lambda: False

    def acquire(self) -> AcquiredConnection:
        """Take a connection for the block; it is returned at its end."""
        return AcquiredConnection(self)

    async def take(self) -> Connection:
        """Take a connection; no other task uses it until `give_back`."""
        await self._free.acquire()
        try:
            idle = self._pop_idle()
            connection = idle or await self._connect()
            if self.look is not None and (idle is None or self.is_stale()):
                await self._inspect_connection(self.look, connection)
        except BaseException:
            self._free.release()
            raise
        self._used.add(connection)
        return connection

    @staticmethod
    async def _inspect_connection(
        look: Callable[[Connection], Awaitable[None]], connection: Connection
    ) -> None:
        try:
            await look(connection)
        except BaseException:
            connection.terminate()
            raise

    def give_back(self, connection: Connection, error: BaseException | None) -> None:
        """Return a connection. It is terminated if the error leaves the state of the protocol unknown."""
        try:
            if error is not None and not isinstance(error, _BETWEEN_STATEMENTS):
                connection.terminate()
        finally:
            self._used.discard(connection)
            self._push_idle(connection)
            self._free.release()

    def _pop_idle(self) -> Connection | None:
        """The connection that was used last, so that those that are not needed grow old."""
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _push_idle(self, connection: Connection) -> None:
        now = asyncio.get_running_loop().time()
        if connection.is_closed():
            pass
        elif connection.is_in_transaction() or self._closed:
            connection.terminate()
        else:
            self._idle.append((connection, now))
        while self._idle and self._idle[0][1] < now - IDLE_S:
            self._idle.popleft()[0].terminate()

    async def close(self, patience_s: float) -> None:
        """Close every connection; after `patience_s` also those that are still in use."""
        self._closed = True
        while self._idle:
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
                await self._idle.pop()[0].close(timeout=patience_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                for _ in range(self._most):
                    await self._free.acquire()
        for connection in list(self._used):
            connection.terminate()
