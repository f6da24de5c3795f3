"""NATS dies, comes back, comes back empty, freezes, refuses: listings go on, writes say so at once, and it heals.

How: a real nats-server, killed with SIGKILL, stopped with SIGSTOP, cut off by a proxy, or configured against us.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import NotFound, Unavailable
from holdfast.model.time import SECOND
from holdfast.registry import connection as connecting
from holdfast.registry.connect import NatsLink
from holdfast.registry.registry import Registry
from holdfast.store.clock import SystemClock, pause
from tests.api.registry.worlds import ConfiguredServer, entry, guids, linked, stranger, until, written
from tests.security.test_s07_tls import certificate
from tests.support.servers import NatsServer, processes

PROMPTLY_S = 2.0


async def refused(link: NatsLink) -> float:
    """The slowest of what must say that NATS is away. A frozen server does later what it was asked, so nothing here
    is over a revision that there is."""
    loop, slowest = asyncio.get_running_loop(), 0.0
    for asked in (
        lambda: link.place.get("a"),
        lambda: link.place.put(entry("a"), over=999),
        lambda: link.place.remove("a", over=999),
    ):
        begun = loop.time()
        with pytest.raises(Unavailable):
            await asked()
        slowest = max(slowest, loop.time() - begun)
    return slowest


async def lists(link: NatsLink, expected: set[str]) -> bool:
    return await guids(link) == expected


async def away(server: NatsServer, seconds: float) -> float:
    """Down for a while: what is known is listed and marked, what is asked is refused at once, and then it is back. How
    long the slowest refusal took."""
    slowest = 0.0
    async with linked(server.url) as link:
        assert await link.place.put(entry("a"), over=0) is not None
        before = SystemClock().wall_us()
        server.kill()
        await until(lambda: not link.well)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while loop.time() - begun < seconds:
            assert await guids(link) == {"a"}
            health = link.place.health()
            assert not health.connected
            assert health.stale_since is not None
            assert before - 10 * SECOND <= health.stale_since <= SystemClock().wall_us()
            slowest = max(slowest, await refused(link))
            await pause(0.1)
        await asyncio.to_thread(server.start)
        async with stranger(server.url) as bucket:
            await bucket.put("b", written("b"))
        await until(lambda: lists(link, {"a", "b"}), connecting.SOON.cap_us / SECOND + 10)
        assert link.place.health().stale_since is None
    return slowest


async def test_three_seconds_down(server: NatsServer) -> None:
    assert await away(server, 3) < PROMPTLY_S


@pytest.mark.chaos
async def test_a_minute_down(server: NatsServer) -> None:
    assert await away(server, 60) < PROMPTLY_S


@pytest.mark.parametrize(
    "restarts", [20, pytest.param(200, marks=[pytest.mark.chaos, pytest.mark.timeout(900)])]
)
async def test_killed_and_restarted(
    server: NatsServer, restarts: int, caplog: pytest.LogCaptureFixture
) -> None:
    """After each kill -9: reconnected, nothing lost, and the watcher hears what is written after it."""
    caplog.set_level(logging.INFO, "holdfast.nats")
    async with linked(server.url) as link:
        assert await link.place.put(entry("ours"), over=0) is not None
        expected = {"ours"}
        for nth in range(restarts):
            server.kill()
            await until(lambda: not link.well)
            await asyncio.to_thread(server.start)
            await until(lambda: link.well)
            async with stranger(server.url) as bucket:
                await bucket.put(f"after-{nth}", written(f"after-{nth}"))
            expected.add(f"after-{nth}")
            await until(lambda: lists(link, expected), 2)
    said = [record.getMessage() for record in caplog.records]
    assert sum("connection to NATS lost" in line for line in said) == restarts
    assert sum("connected to NATS" in line for line in said) == restarts + 1
    attempts = sum("connecting to NATS" in line for line in said)
    assert attempts == restarts + 1 + sum("trying again" in line for line in said), "each attempt is logged"


async def test_a_restart_without_its_data_is_rebuilt(server: NatsServer) -> None:
    """What went through us is there again at once; what others had put is theirs to put; who left stays away."""
    clock = SystemClock()
    async with linked(server.url) as link:
        registry = Registry(link.place, clock.wall_us)
        await registry.register(entry("ours", metadata={"kept": True}))
        await registry.register(entry("left"))
        await registry.deregister("left")
        async with stranger(server.url) as bucket:
            await bucket.put("theirs", written("theirs"))
            await bucket.put("both", written("both", mood="fine"))
        await registry.beat("both")
        await until(lambda: lists(link, {"ours", "theirs", "both"}))
        server.kill()
        await until(lambda: not link.well)
        await asyncio.to_thread(server.restart, keep_data=False)
        await until(lambda: link.well)
        assert await guids(link) == {"ours", "both"}
        assert (await registry.get("ours")).entry.metadata == {"kept": True}
        async with stranger(server.url) as bucket:
            assert b'"mood":"fine"' in ((await bucket.get("both")).value or b"")
        with pytest.raises(NotFound):
            await registry.beat("theirs")
        await registry.register(entry("theirs"))
        assert await guids(link) == {"ours", "both", "theirs"}


async def test_what_was_silent_for_three_beats_is_not_rebuilt(server: NatsServer) -> None:
    async with linked(server.url) as link:
        assert await link.place.put(entry("quick", heartbeat_interval_ms=100), over=0) is not None
        assert await link.place.put(entry("slow"), over=0) is not None
        server.kill()
        await until(lambda: not link.well)
        (quick,) = [seen for seen in await link.place.list() if seen.entry.guid == "quick"]
        await until(lambda: SystemClock().wall_us() - quick.heard_at > SECOND // 2)
        await asyncio.to_thread(server.restart, keep_data=False)
        await until(lambda: link.well)
        assert await guids(link) == {"slow"}


@pytest.fixture
def frozen(server: NatsServer) -> Iterator[NatsServer]:
    yield server
    if server.pid is not None:
        os.kill(server.pid, signal.SIGCONT)


async def test_a_server_that_does_not_answer_is_gone(frozen: NatsServer) -> None:
    """Its socket accepts and says nothing, as behind a firewall that forgot the connection."""
    async with linked(frozen.url) as link:
        assert await link.place.put(entry("a"), over=0) is not None
        pid = frozen.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: processes._stat(pid)[0] == "T")
        assert await refused(link) < PROMPTLY_S
        await until(lambda: not link.connection.connected, 10)
        assert "does not answer" in link.connection.trouble
        assert await guids(link) == {"a"}
        assert link.place.health().stale_since is not None
        os.kill(pid, signal.SIGCONT)
        await until(lambda: link.well)
        async with stranger(frozen.url) as bucket:
            await bucket.put("b", written("b"))
        await until(lambda: lists(link, {"a", "b"}), 2)


async def test_it_need_not_be_there_at_the_start() -> None:
    with NatsServer() as server:
        url = server.url
        server.halt()
        async with linked(url, well=False) as link:
            await until(lambda: "no NATS server listens" in link.connection.trouble)
            assert await guids(link) == set()
            assert not link.place.health().connected
            assert await refused(link) < PROMPTLY_S
            await asyncio.to_thread(server.start)
            await until(lambda: link.well)
            assert link.connection.trouble == ""
            assert await link.place.put(entry("a"), over=0) is not None


async def test_the_next_server_in_the_list_is_tried(server: NatsServer) -> None:
    with NatsServer() as other:
        other.halt()
        async with linked(f"nats://127.0.0.1:{other.port},{server.url}") as link:
            assert link.connection.connected


SECRETS = ("pass-word-17", "pass%2Dword%2D17")


@pytest.mark.parametrize("user", ["app:wrong%21", "app:pass-word-17x", "nobody:pass-word-17", "token"])
async def test_wrong_credentials_say_so(user: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "holdfast.nats")
    told = {"users": [{"user": "app", "password": "pass-word-17"}]}
    with ConfiguredServer(authorization=told) as server:
        async with linked(f"nats://{user}@127.0.0.1:{server.port}", well=False) as link:
            await until(lambda: "refuses our credentials" in link.connection.trouble)
            assert "HOLDFAST_NATS_URL" in link.connection.trouble
            assert await refused(link) < PROMPTLY_S
        async with linked(f"nats://app:{SECRETS[1]}@127.0.0.1:{server.port}") as link:
            assert link.connection.connected, "what is encoded in an address is decoded"
    assert "refuses our credentials" in caplog.text
    for secret in (*SECRETS, "wrong"):
        assert secret not in caplog.text


async def test_credentials_that_are_corrected_are_taken_without_a_restart(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses while we reconnect, which ends the library's client for good, and then takes us again."""
    monkeypatch.setattr(connecting, "SLOWLY", connecting.SOON)
    caplog.set_level(logging.INFO, "holdfast.nats")
    server = ConfiguredServer(authorization={"users": [{"user": "app", "password": "one"}]})
    with server:
        async with linked(f"nats://app:one@127.0.0.1:{server.port}") as link:
            server.told = {"authorization": {"users": [{"user": "app", "password": "two"}]}}
            server.kill()
            await asyncio.to_thread(server.start)
            await until(lambda: "refuses our credentials" in link.connection.trouble)
            server.told = {"authorization": {"users": [{"user": "app", "password": "one"}]}}
            server.kill()
            await asyncio.to_thread(server.start)
            await until(lambda: link.well)
            assert link.connection.trouble == ""


async def test_a_token_opens() -> None:
    with ConfiguredServer(authorization={"token": "s3cret"}) as server:
        async with linked(f"nats://s3cret@127.0.0.1:{server.port}") as link:
            assert await link.place.put(entry("a"), over=0) is not None


async def test_a_bucket_that_we_may_not_use_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "holdfast.nats")
    user = {"user": "app", "password": "x", "permissions": {"publish": {"deny": ["$JS.API.>"]}}}
    with ConfiguredServer(authorization={"users": [user]}) as server:
        async with linked(f"nats://app:x@127.0.0.1:{server.port}", well=False) as link:
            await until(lambda: bool(link.connection.trouble))
            assert link.connection.connected
            assert not link.well
            await until(lambda: "what they may do" in caplog.text)


async def test_without_jetstream_it_says_so() -> None:
    with ConfiguredServer(jetstream=None) as server:
        async with linked(server.url, well=False) as link:
            await until(lambda: "no JetStream" in link.connection.trouble)
            assert "-js" in link.connection.trouble
            assert not link.well
            assert await refused(link) < PROMPTLY_S


async def test_tls_as_it_should_be_and_as_it_should_not(tmp_path: Path, server: NatsServer) -> None:
    cert, key = certificate(tmp_path)
    tls = {"cert_file": str(cert), "key_file": str(key)}
    with ConfiguredServer(tls=tls) as encrypted:
        at = f"127.0.0.1:{encrypted.port}"
        for scheme in ("tls", "nats"):
            async with linked(f"{scheme}://{at}", HOLDFAST_NATS_CA=str(cert)) as link:
                assert await link.place.put(entry(f"over-{scheme}"), over=0) is not None
            async with linked(f"{scheme}://{at}", well=False) as link:
                await until(lambda: "is not trusted" in link.connection.trouble)
                assert "HOLDFAST_NATS_CA" in link.connection.trouble
    async with linked(f"tls://app:hush@127.0.0.1:{server.port}", well=False) as link:
        await until(lambda: "does not ask for TLS" in link.connection.trouble)
        assert not link.connection.connected
    async with linked(f"tls://{at}", well=False, HOLDFAST_NATS_CA=str(tmp_path / "none.pem")) as link:
        await until(lambda: bool(link.connection.trouble))
