"""A real nats-server with JetStream: what is put survives a kill, and nothing survives stop."""

from __future__ import annotations

import asyncio
from typing import Any

import nats
import pytest
from nats.js.errors import BucketNotFoundError, KeyNotFoundError

from tests.support.servers import NatsServer, ServerFailed
from tests.support.servers.processes import alive


@pytest.mark.parametrize("sync_always", [False, True])
async def test_a_key_survives_a_kill(sync_always: bool) -> None:
    """A KV entry acknowledged before kill -9 is read back after the restart, at the same address."""
    with NatsServer(sync_always=sync_always) as server:
        url = server.url
        async with await nats.connect(url) as connection:
            bucket = await connection.jetstream().create_key_value(bucket="b")
            revision = await bucket.put("key", b"value")
        server.kill()
        assert not server.running
        await asyncio.to_thread(server.restart)
        assert server.url == url
        async with await nats.connect(url) as connection:
            entry = await (await connection.jetstream().key_value("b")).get("key")
            assert (entry.value, entry.revision) == (b"value", revision)

        await asyncio.to_thread(server.restart, keep_data=False)
        async with await nats.connect(url) as connection:
            with pytest.raises(BucketNotFoundError):
                await connection.jetstream().key_value("b")


async def test_a_client_comes_back_by_itself() -> None:
    """A client that stays through a restart reconnects without help, because the address is kept."""
    with NatsServer() as server:
        back = asyncio.Event()

        async def reconnected() -> None:
            back.set()

        async with await nats.connect(
            server.url, reconnected_cb=reconnected, reconnect_time_wait=0, max_reconnect_attempts=-1
        ) as connection:
            server.kill()
            await asyncio.to_thread(server.start)
            await asyncio.wait_for(back.wait(), 30)
            assert (await connection.jetstream().account_info()).streams == 0


async def test_it_can_expire_keys(nats_server: NatsServer) -> None:
    """The server's JetStream is new enough for per-key time to live: the registry rests on it."""
    async with await nats.connect(nats_server.url) as connection:
        jetstream = connection.jetstream()
        assert ((await jetstream.account_info()).api.level or 0) >= 1
        bucket = await jetstream.create_key_value(bucket="ttl", history=1, limit_marker_ttl=1)
        watcher: Any = await bucket.watch("key")
        await bucket.create("key", b"v", msg_ttl=1)
        operations = []
        while "PURGE" not in operations:
            entry = await watcher.updates(timeout=30)
            operations.append(entry.operation if entry else None)
        with pytest.raises((KeyNotFoundError, AssertionError)):
            assert (await bucket.get("key")).value is not None
        await watcher.stop()


def test_nothing_is_left_after_stop() -> None:
    """Process, watchdog and folder are gone after stop; stopping again is harmless; it can start anew."""
    server = NatsServer()
    for _ in range(2):
        server.start()
        folder, watchdog = server.folder, server._watchdog
        assert watchdog is not None
        family = [server.pid or 0, watchdog.pid]
        assert all(map(alive, family))
        server.stop()
        server.stop()
        assert not any(map(alive, family))
        assert not folder.exists()
        with pytest.raises(ServerFailed, match="not started"):
            _ = server.url


def test_two_servers_do_not_meet(nats_server: NatsServer) -> None:
    """Each server has a port and a folder of its own, so workers in parallel are safe."""
    with NatsServer() as other:
        assert other.port != nats_server.port
        assert other.folder != nats_server.folder
