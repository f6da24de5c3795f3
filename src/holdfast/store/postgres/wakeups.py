"""Wake-ups over LISTEN/NOTIFY, on a connection of their own that is reopened when it breaks.

A NOTIFY inside a writing transaction would take a lock at commit that all notifiers share, so hints are sent after the
commit, many in one message. While the listening connection is broken, hints are lost; once it is reopened every waiter
is woken, because any of them may have missed one.

The waiters of this process get a hint at once, and the server sends it to this process, too: that echo is ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Final

import asyncpg

from holdfast.store.clock import pause
from holdfast.store.postgres.connections import Connection, Connections
from holdfast.store.postgres.errors import is_away
from holdfast.store.wakeup_board import HintBoard

PAYLOAD_BYTES: Final = 7500
"""Postgres takes at most 8,000 bytes in a notification."""

ECHOES_MAX: Final = 256
"""Messages whose echo is outstanding: more than are ever in transit."""

RETRY_S: Final = 0.25
CHECK_EVERY_S: Final = 20.0


class PostgresWakeups:
    """Wake-ups of one open store: delivers hints to its waiters, and sends hints to all processes on the same
    schema."""

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], connections: Connections, channel: str
    ) -> None:
        self._connect = connect
        self._connections = connections
        self._channel = channel
        self._board = HintBoard()
        self._unsent: dict[str, None] = {}
        self._echoes: dict[tuple[int, str], None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._ready: asyncio.Event | None = None

    async def wait(self, topics: AbstractSet[str], timeout_s: float) -> frozenset[str]:
        if self._listening is None:
            self._ready = asyncio.Event()
            self._listening = asyncio.create_task(self._listen(self._ready), name="holdfast-listen")
            # The first wait begins once hints can arrive; after a second without a connection it begins without hints.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(timeout_s, 1.0)):
                    await self._ready.wait()
        return await self._board.wait(topics, timeout_s)

    def hint(self, topic: str) -> None:
        self.send_wakeups((topic,))

    def send_wakeups(self, topics: Iterable[str]) -> None:
        """Send hints to every waiter for one of these topics; in this process at once, in others with the next
        message."""
        unique = dict.fromkeys(topics)
        if not unique:
            return
        self._board.deliver(unique)
        self._unsent |= unique
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(), name="holdfast-notify")

    async def _send(self) -> None:
        while self._unsent:
            message = self._pop_message()
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                async with self._connections.acquire() as connection:
                    self._expect((connection.get_server_pid(), message))
                    await connection.execute("SELECT pg_notify($1, $2)", self._channel, message)

    def _expect(self, echo: tuple[int, str]) -> None:
        """Record that the server will echo this message, if we listen. An echo that does not come may suppress one
        equal message of another process."""
        if self._ready is not None and self._ready.is_set():
            self._echoes[echo] = None
        if len(self._echoes) > ECHOES_MAX:
            self._echoes.clear()

    def _pop_message(self) -> str:
        parts: list[str] = []
        size = 0
        for topic in list(self._unsent):
            size += len(topic.encode()) + 1
            if parts and size > PAYLOAD_BYTES:
                break
            parts.append(topic)
            del self._unsent[topic]
        return "\n".join(parts)[:PAYLOAD_BYTES]

    async def _listen(self, ready: asyncio.Event) -> None:
        """Listen for ever: reconnect whenever the connection breaks, and then wake every waiter."""
        first = True
        while True:
            try:
                connection = await self._connect()
                try:
                    broken = asyncio.Event()
                    connection.add_termination_listener(lambda _, broken=broken: broken.set())
                    await connection.add_listener(self._channel, self._receive)
                    self._echoes.clear()
                    if not first:
                        self._board.wake_all()
                    first = False
                    ready.set()
                    await self._wait_until_broken(connection, broken)
                finally:
                    with contextlib.suppress(Exception):
                        connection.terminate()
            except Exception as error:
                if not is_away(error):
                    raise
            await pause(RETRY_S)

    async def _wait_until_broken(self, connection: Connection, broken: asyncio.Event) -> None:
        """Wait until the connection breaks. A half-open connection looks alive, so a statement checks it now and
        then."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY_S):
                    await broken.wait()
                return
            await connection.execute("SELECT 1", timeout=CHECK_EVERY_S)

    def _receive(self, _connection: object, pid: int, _channel: str, message: object) -> None:
        if self._echoes.pop((pid, str(message)), self) is self:
            self._board.deliver(str(message).split("\n"))

    async def close(self) -> None:
        for task in (self._listening, self._sending):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
