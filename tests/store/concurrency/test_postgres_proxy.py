"""The proxy cuts where it was told to, and passes everything else on unchanged."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.support.postgres_proxy import Cut, Messages, Proxy, Side
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.xdist_group("cut-postgres")

LOST = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)


@pytest.fixture
async def proxy(
    durable_postgres_server: PostgresServer, durable_postgres_database: str
) -> AsyncIterator[Proxy]:
    async with Proxy(durable_postgres_server.port) as proxy:
        yield proxy


async def _connect(server: PostgresServer, url: str, proxy: Proxy) -> asyncpg.Connection:
    name = url.partition("?")[0].rpartition("/")[2]
    return await asyncpg.connect(server.tcp_url(name, port=proxy.port), timeout=30)


def test_messages_come_out_whole_whatever_the_pieces() -> None:
    """Goal: a message is a message however TCP delivers it. Method: a startup and two typed messages in pieces of
    every size."""
    startup = b"\x00\x00\x00\x08abcd"
    said = [startup, b"Q\x00\x00\x00\x08SQL\x00", b"S\x00\x00\x00\x04"]
    whole = b"".join(said)
    for size in range(1, len(whole) + 1):
        messages = Messages(begins_untyped=True)
        pieces = (whole[start : start + size] for start in range(0, len(whole), size))
        assert [message for piece in pieces for message in messages.feed(piece)] == said


async def test_what_is_not_cut_gets_through(
    proxy: Proxy, durable_postgres_server: PostgresServer, durable_postgres_database: str
) -> None:
    """Goal: a proxy without orders is a wire. Method: large values both ways, on several connections at once."""
    large = "x" * 3_000_000

    async def echo() -> str:
        connection = await _connect(durable_postgres_server, durable_postgres_database, proxy)
        try:
            echoed: str = await connection.fetchval("SELECT $1::text", large)
            return echoed
        finally:
            await connection.close()

    assert await asyncio.gather(*(echo() for _ in range(3))) == [large] * 3
    assert proxy.connections == 3


@pytest.mark.parametrize(
    "cut, done",
    [
        (Cut(Side.CLIENT, since=b"INSERT"), 0),
        (Cut(Side.CLIENT, since=b"INSERT", torn=True), 0),
        (Cut(Side.SERVER, since=b"INSERT"), 1),
        (Cut(Side.SERVER, 1, since=b"INSERT", torn=True), 1),
        (Cut(Side.CLIENT, since=b"INSERT", passed=True), 1),
    ],
    ids=["request", "half a request", "reply", "half a reply", "request passed"],
)
async def test_a_cut_loses_what_it_says(
    proxy: Proxy, durable_postgres_server: PostgresServer, durable_postgres_database: str, cut: Cut, done: int
) -> None:
    """Goal: after a lost request nothing was done, after a lost reply everything. Method: one INSERT under each kind of
    cut, counted from another connection."""
    eyes = await asyncpg.connect(durable_postgres_database)
    await eyes.execute("CREATE TABLE t (n int)")
    connection = await _connect(durable_postgres_server, durable_postgres_database, proxy)
    proxy.arm(cut)
    with pytest.raises(LOST):
        await connection.execute("INSERT INTO t VALUES (1)")
    connection.terminate()
    assert cut.sprung
    async with asyncio.timeout(30):
        while await eyes.fetchval("SELECT count(*) FROM t") != done:
            pass
    again = await _connect(durable_postgres_server, durable_postgres_database, proxy)
    assert await again.fetchval("SELECT 1") == 1, "a cut happens once"
    await again.close()
    await eyes.close()


async def test_a_stalled_wire_moves_again(
    proxy: Proxy, durable_postgres_server: PostgresServer, durable_postgres_database: str
) -> None:
    """Goal: stalling loses nothing. Method: a question on a stalled wire is answered after it resumes; a refused
    connection is not made."""
    connection = await _connect(durable_postgres_server, durable_postgres_database, proxy)
    proxy.stall()
    asking = asyncio.create_task(connection.fetchval("SELECT 1"))
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(asking), 0.1)
    assert not asking.done()
    proxy.resume()
    assert await asking == 1
    proxy.refuse()
    with pytest.raises(LOST):
        await _connect(durable_postgres_server, durable_postgres_database, proxy)
    proxy.refuse(False)
    proxy.reset()
    with pytest.raises(LOST):
        await connection.fetchval("SELECT 1")
    connection.terminate()
