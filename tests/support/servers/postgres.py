"""A real PostgreSQL server of our own, in a folder that vanishes with it.

    with PostgresServer(durable=True) as server:
        await server.create_database("first")
        connection = await asyncpg.connect(server.url("first"))
        server.kill()                       # every process at once, as a power cut would
        server.restart()                    # recovers from its log; same address as before

It listens on a unix socket in its private folder, and on a loopback port only when asked (`tcp=True`), which
a proxy that cuts the wire needs.

`durable=False` turns every kind of flushing off: right for functional tests, meaningless for crash tests.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from tests.support.servers import places, processes
from tests.support.servers.binaries import PostgresBinaries, find_postgres
from tests.support.servers.databases import Databases
from tests.support.servers.lifecycle import OwnedServer
from tests.support.servers.processes import ServerFailed

_SETTINGS = {
    "max_connections": "200",
    # In the data folder, not in /dev/shm, which is small in containers and where a kill leaves files behind.
    "dynamic_shared_memory_type": "mmap",
}
_FLUSH_NOTHING = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_FLUSH_ALL = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

_SOCKET_PORT = 5432  # only names the socket's file, so every server may use the same
_PORT_TRIES = 5


class PostgresServer(OwnedServer, Databases):
    """One PostgreSQL server. Nothing runs and nothing is on disk before `start` and after `stop`."""

    name = "PostgreSQL"
    prefix = "hf-pg-"
    ending = signal.SIGQUIT  # the postmaster ends its backends and gives back its shared memory by itself

    def __init__(
        self,
        *,
        durable: bool = False,
        tcp: bool = False,
        binaries: PostgresBinaries | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        OwnedServer.__init__(self, places.unprivileged())
        Databases.__init__(self)
        self.durable = durable
        self.volatile = not durable
        self.binaries = binaries or find_postgres()
        self._programs = self.binaries.folder
        self._settings = _SETTINGS | (_FLUSH_ALL if durable else _FLUSH_NOTHING) | dict(settings or {})
        self._tcp = tcp
        self._port = _SOCKET_PORT

    # ── where it is ───────────────────────────────────────────────────────────────────────────────

    @property
    def port(self) -> int:
        """The loopback port; it stays the same over restarts. Only with `tcp=True`."""
        if not self._tcp:
            raise ServerFailed("This PostgreSQL server has no port.", hint="Pass `tcp=True`.")
        return self._port

    def url(self, database: str = "postgres") -> str:
        """The address through the unix socket, complete: no PG… variable of the environment is consulted."""
        return f"postgresql://postgres@/{quote(database, safe='')}?host={self.folder}&port={self._port}"

    def tcp_url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """The address through loopback, by default our port; pass a proxy's to go through the proxy."""
        address = f"127.0.0.1:{self.port if port is None else port}"
        return f"postgresql://postgres@{address}/{quote(database, safe='')}?sslmode=disable"

    # ── life and death ────────────────────────────────────────────────────────────────────────────

    def halt(self, *, immediate: bool = False) -> None:
        """The server is down in good order, its data are kept, and `start` brings it back.

        Clients are cut off either way. `immediate` writes no checkpoint, so the next start has to recover.
        """
        self._end(signal.SIGQUIT if immediate else signal.SIGINT)

    def restart(self, *, immediate: bool = False) -> None:
        """The server accepts connections at the same address, after `halt` or as whatever `kill` left."""
        self.halt(immediate=immediate)
        self.start()

    def stop(self) -> None:
        """No process, file or shared memory of the server is left. May be called at any time, and again."""
        self.halt(immediate=True)
        if self._folder is not None:
            _release_shared_memory(self._folder / "data" / "postmaster.pid")
        self.forget_templates()
        super().stop()

    def kill_backend(self, pid: int) -> None:
        """One backend was killed (-9). PostgreSQL then cuts off all clients and recovers by itself.

        Args:
            pid: what `select pg_backend_pid()` said in the connection to kill.
        """
        self._signal_backend(pid, signal.SIGKILL)

    def terminate_backend(self, pid: int) -> None:
        """One connection is being closed by the server; the others do not notice."""
        self._signal_backend(pid, signal.SIGTERM)

    # ── how ───────────────────────────────────────────────────────────────────────────────────────

    def _launch_first(self) -> None:
        self._programs = places.reachable(self.binaries.folder, self._account, self.folder)
        self._initdb()
        for attempt in range(1, _PORT_TRIES + 1):
            # A port can only be found free, and then hoped to be free still.
            self._port = _free_port() if self._tcp else _SOCKET_PORT
            try:
                self._launch()
            except ServerFailed:
                if self.running or not self._tcp or attempt == _PORT_TRIES:
                    raise
            else:
                return

    def _initdb(self) -> None:
        log = self.folder / "initdb.log"
        options = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", "--no-instructions"]
        initdb = processes.launch(
            [self._programs / "initdb", *options, "-D", self.folder / "data"],
            home=self.folder,
            log=log,
            environment=_environment(),
            account=self._account,
        )
        self._process = initdb  # so that an interrupt ends it too
        self._watch(initdb.pid)
        status = initdb.wait(processes.PATIENCE_S)
        self._forget_process()
        if status != 0:
            raise ServerFailed(f"initdb ended with {status}:\n{processes.log_tail(log)}")

    def _launch(self) -> None:
        settings = self._settings | {
            "port": str(self._port),
            "listen_addresses": "127.0.0.1" if self._tcp else "",
            "unix_socket_directories": str(self.folder),
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        command: list[str | Path] = [self._programs / "postgres", "-D", self.folder / "data", *options]
        self._run(command, _environment(), self._says_ready)

    def _says_ready(self) -> bool:
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # The first line tells this start's file from the one that a killed server left.
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _signal_backend(self, pid: int, which: signal.Signals) -> None:
        if self.pid is None or pid not in processes.children(self.pid):
            raise ServerFailed(f"{pid} is not a process of this PostgreSQL server.")
        os.kill(pid, which)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _release_shared_memory(left_over: Path) -> None:
    # Line 7 of the file that a killed postmaster leaves names the 56 bytes it can no longer give back.
    with contextlib.suppress(FileNotFoundError, IndexError, ValueError):
        segment = int(left_over.read_text().splitlines()[6].split()[1])
        ctypes.CDLL(None).shmctl(segment, 0, None)  # 0 is IPC_RMID: remove it
