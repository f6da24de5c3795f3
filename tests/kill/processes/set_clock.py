"""A clock that a test sets: this host's for a file, the server's for Postgres. All processes of the test see it.

The host's clock is moved by the file that HOLDFAST_TEST_CLOCK_FILE names. The server's is moved by a function
`statement_timestamp` in the schema of the store, which a proxy puts before the server's own: it adds `pg_catalog` to
the end of each connection's search path, which without that is searched first."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

import asyncpg

from holdfast.model.ids import RandomIds
from holdfast.runtime import open_store

_FUNCTION = """
CREATE TABLE public.clock (set_by interval NOT NULL);
INSERT INTO public.clock VALUES ('0');
CREATE FUNCTION holdfast.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
AS 'SELECT pg_catalog.statement_timestamp() + set_by FROM public.clock';
"""


class SetClock(Protocol):
    """`address` is where processes find the store; `environment` is theirs."""

    address: str
    environment: dict[str, str]

    async def set(self, us: int) -> None:
        """The clock is ahead of the true time by so much."""
        ...


class HostClock:
    """The wall clock of this host, as processes with this environment see it."""

    def __init__(self, address: str, file: Path) -> None:
        self.address = address
        self.environment = {"HOLDFAST_TEST_CLOCK_FILE": str(file)}
        self._file = file

    async def set(self, us: int) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(us))
        fresh.replace(self._file)  # no process reads half of it


class ServerClock:
    """The clock of a Postgres server, as connections through the proxy see it."""

    def __init__(self, address: str, server: str) -> None:
        self.address = address
        self.environment: dict[str, str] = {}
        self._server = server

    async def set(self, us: int) -> None:
        connection = await asyncpg.connect(self._server)
        try:
            await connection.execute("UPDATE public.clock SET set_by = make_interval(secs => $1)", us / 1e6)
        finally:
            await connection.close()


@asynccontextmanager
async def clock_of(where: str, folder: Path) -> AsyncIterator[SetClock]:
    """The clock that the store at this address goes by; the store is made if it is not there."""
    if where.startswith("sqlite"):
        yield HostClock(where, folder / "clock")
        return
    await (await open_store(where, ids=RandomIds())).close()
    connection = await asyncpg.connect(where)
    try:
        await connection.execute(_FUNCTION)
    finally:
        await connection.close()
    parts = urlsplit(where)
    socket = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.{parse_qs(parts.query).get('port', ['5432'])[0]}"
    async with _proxy(socket) as port:
        user = f"{parts.username}@" if parts.username else ""
        yield ServerClock(f"postgresql://{user}127.0.0.1:{port}{parts.path}?sslmode=disable", where)


@asynccontextmanager
async def _proxy(socket: str) -> AsyncIterator[int]:
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            there, away = await asyncio.open_unix_connection(socket)
            try:
                away.write(_with_search_path(await _startup(reader)))
                done, left = await asyncio.wait(
                    [
                        asyncio.ensure_future(_pass_on(reader, away)),
                        asyncio.ensure_future(_pass_on(there, writer)),
                    ],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for passing in left:
                    passing.cancel()
                await asyncio.gather(*done, *left, return_exceptions=True)
            finally:
                away.close()
                writer.close()
        connections.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _startup(reader: asyncio.StreamReader) -> bytes:
    """The first message of a client, with its length."""
    length = await reader.readexactly(4)
    return length + await reader.readexactly(struct.unpack("!i", length)[0] - 4)


def _with_search_path(message: bytes) -> bytes:
    before = b'search_path\0"holdfast"\0'
    if before not in message:  # a request to cancel, or a connection of the test's own
        return message
    body = message[4:].replace(before, b'search_path\0"holdfast", pg_catalog\0')
    return struct.pack("!i", len(body) + 4) + body


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
