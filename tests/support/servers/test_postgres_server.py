"""A real PostgreSQL, started, cut down and brought back, on every installation this machine has."""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.servers import (
    PostgresBinaries,
    PostgresServer,
    ServerFailed,
    find_postgres,
    postgres_installations,
)
from tests.support.servers.processes import alive, children

asyncpg = importlib.import_module("asyncpg")  # untyped; this way it is Any under every setting of the checker

Servers = Callable[[PostgresBinaries], PostgresServer]


@pytest.fixture(scope="module")
def durable_servers() -> Iterator[Servers]:
    """One durable server per installation, started when first asked for, whatever order the tests come in."""
    with ExitStack() as stack:
        started: dict[PostgresBinaries, PostgresServer] = {}

        def get(binaries: PostgresBinaries) -> PostgresServer:
            if binaries not in started:
                started[binaries] = stack.enter_context(
                    PostgresServer(durable=True, tcp=True, binaries=binaries)
                )
            started[binaries].start()
            return started[binaries]

        yield get


# One installation's tests stay together in one xdist process, so that its server is started once.
INSTALLATIONS = [
    pytest.param(found, id=str(found), marks=pytest.mark.xdist_group(str(found)))
    for found in postgres_installations()
]


@pytest.fixture(params=INSTALLATIONS)
def server(request: pytest.FixtureRequest, durable_servers: Servers) -> PostgresServer:
    """A running durable server of each installation in turn."""
    return durable_servers(request.param)


async def test_it_is_the_version_that_was_asked_for(server: PostgresServer) -> None:
    """Over socket and port the server says the version its program said, in UTF-8, in UTC, flushing all."""
    for url in (server.url(), server.tcp_url()):
        connection = await asyncpg.connect(url)
        version = int(await connection.fetchval("SHOW server_version_num"))
        assert divmod(version, 10_000) == server.binaries.version
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert await connection.fetchval(f"SHOW {setting}") == "on"
        assert await connection.fetchval("SHOW server_encoding") == "UTF8"
        assert await connection.fetchval("SHOW timezone") in {"UTC", "Etc/UTC"}
        await connection.close()


@pytest.mark.parametrize("blow", ["kill", "immediate", "fast"])
async def test_committed_rows_survive(server: PostgresServer, blow: str) -> None:
    """Rows acknowledged before a kill or a restart are there after it, an open transaction's are not."""
    async with server.fresh_database() as url:
        writer = await asyncpg.connect(url)
        await writer.execute("CREATE TABLE t (n int)")
        await writer.execute("INSERT INTO t SELECT generate_series(1, 1000)")
        open_one = await asyncpg.connect(url)
        await open_one.execute("BEGIN; INSERT INTO t VALUES (-1)")

        before = server.pid
        if blow == "kill":
            server.kill()
            assert not server.running
        await asyncio.to_thread(server.restart, immediate=blow == "immediate")
        assert server.pid not in {None, before}

        # Same address as before; and nobody is still connected to the server that was.
        reader = await asyncpg.connect(url)
        assert await reader.fetchval("SELECT array_agg(n ORDER BY n) FROM t") == list(range(1, 1001))
        await reader.close()
        for gone in (writer, open_one):
            with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
                await gone.fetchval("SELECT 1")
            gone.terminate()


async def test_kill_leaves_no_backend(server: PostgresServer) -> None:
    """After a kill not one process of the server runs, a backend busy in a statement included."""
    busy, observer = await server.connect(), await server.connect()
    pid = await busy.fetchval("SELECT pg_backend_pid()")
    loop_for_ever = asyncio.create_task(busy.execute("DO $$ BEGIN LOOP END LOOP; END $$"))
    while await observer.fetchval("SELECT state FROM pg_stat_activity WHERE pid = $1", pid) != "active":
        pass
    await observer.close()
    family = [server.pid, *children(server.pid or 0)]
    assert pid in family
    server.kill()
    assert not any(alive(each) for each in family if each)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await loop_for_ever
    busy.terminate()


async def test_a_killed_backend_takes_all_clients_and_the_server_recovers(server: PostgresServer) -> None:
    """Killing one backend (-9) cuts off a bystander too, and the same postmaster answers again."""
    postmaster = server.pid
    victim, bystander = await server.connect(), await server.connect()
    bystander_gone = asyncio.Event()
    bystander.add_termination_listener(lambda _: bystander_gone.set())
    server.kill_backend(await victim.fetchval("SELECT pg_backend_pid()"))
    await asyncio.wait_for(bystander_gone.wait(), 30)
    await server.until_answers()
    assert server.pid == postmaster
    victim.terminate()


async def test_a_terminated_backend_is_alone(server: PostgresServer) -> None:
    """Terminating one backend closes that connection and leaves its neighbour at work."""
    victim, bystander = await server.connect(), await server.connect()
    gone = asyncio.Event()
    victim.add_termination_listener(lambda _: gone.set())
    server.terminate_backend(await victim.fetchval("SELECT pg_backend_pid()"))
    await asyncio.wait_for(gone.wait(), 30)
    assert await bystander.fetchval("SELECT 1") == 1
    await bystander.close()


def test_only_its_own_processes_can_be_signalled(postgres_server: PostgresServer) -> None:
    """A process number that is not a backend of this server is refused and unharmed: here, our own."""
    with pytest.raises(ServerFailed, match="not a process of this"):
        postgres_server.kill_backend(os.getpid())
    with pytest.raises(ServerFailed):
        postgres_server.kill_backend(postgres_server.pid or 0)


def test_nothing_is_left_after_stop() -> None:
    """Processes, watchdog and folder are gone after stop; stopping again is harmless; it can start anew."""
    server = PostgresServer()
    for _ in range(2):
        server.start()
        folder, watchdog = server.folder, server._watchdog
        assert watchdog is not None
        family = [server.pid or 0, watchdog.pid, *children(server.pid or 0)]
        assert all(map(alive, family))
        server.stop()
        server.stop()
        assert not any(map(alive, family))
        assert not folder.exists()
        with pytest.raises(ServerFailed, match="not started"):
            server.url()


def test_stop_after_kill_leaves_no_shared_memory() -> None:
    """A killed server cannot give back its shared memory; stop does it in its place."""
    segments = Path("/proc/sysvipc/shm")
    with PostgresServer() as server:
        segment = (server.folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]
        server.kill()
    if segments.exists():
        assert segment not in {line.split()[1] for line in segments.read_text().splitlines()}


def test_it_listens_nowhere_unless_asked(postgres_server: PostgresServer, durable_servers: Servers) -> None:
    """The functional server has no port at all; the durable one's is open on loopback."""
    with pytest.raises(ServerFailed, match="no port"):
        _ = postgres_server.port
    with pytest.raises(ServerFailed, match="no port"):
        postgres_server.tcp_url()
    socket.create_connection(("127.0.0.1", durable_servers(find_postgres()).port), 30).close()


def test_a_server_that_cannot_start_shows_its_log() -> None:
    """A refused setting surfaces as ServerFailed with the server's own words, and leaves nothing behind."""
    server = PostgresServer(settings={"shared_buffers": "one"})
    with pytest.raises(ServerFailed, match="shared_buffers"):
        server.start()
    assert not server.running
    with pytest.raises(ServerFailed, match="not started"):
        _ = server.folder


def test_programs_out_of_reach_are_copied(tmp_path: Path) -> None:
    """Programs under a folder of mode 700 still serve, also to `nobody`, and the folder stays closed."""
    found = find_postgres()
    package = found.folder.parent.parent
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    for part in (Path(package.name, found.folder.parent.name), Path(f"{package.name}.libs")):
        if (package.parent / part).exists():
            shutil.copytree(package.parent / part, home / part)
    closed = PostgresBinaries(home / package.name / found.folder.parent.name / "bin", found.version, "closed")
    with PostgresServer(binaries=closed) as server:
        assert server.running
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_postmaster_killed_from_outside_is_noticed_and_revived(durable_servers: Servers) -> None:
    """When something else kills the postmaster, `running` says so and `start` recovers the same data."""
    server = durable_servers(find_postgres())
    for backend in (pid := server.pid or 0, *children(pid)):
        os.kill(backend, signal.SIGKILL)
    assert server._process is not None
    server._process.wait(30)
    assert not server.running
    server.start()
    assert server.running
