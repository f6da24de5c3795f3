"""A real nats-server with JetStream, on a loopback port the system chose, in a folder that vanishes with it.

    with NatsServer() as server:
        connection = await nats.connect(server.url)
        server.kill()
        server.restart(keep_data=True)      # same address, so clients reconnect by themselves

JetStream flushes every two minutes unless `sync_always=True`. Killing the process loses nothing either way;
a power cut would.
"""

from __future__ import annotations

import json
import os
import shutil
import signal

from tests.support.servers.binaries import NatsBinary, find_nats
from tests.support.servers.lifecycle import OwnedServer
from tests.support.servers.processes import ServerFailed


class NatsServer(OwnedServer):
    """One nats-server. Nothing runs and nothing is on disk before `start` and after `stop`."""

    name = "NATS"
    prefix = "hf-nats-"
    ending = signal.SIGKILL  # it has no children and nothing to tidy up

    def __init__(self, *, sync_always: bool = False, binary: NatsBinary | None = None) -> None:
        super().__init__(account=None)  # as ourselves: unlike PostgreSQL it does not mind root
        self.sync_always = sync_always
        self.binary = binary or find_nats()
        self._port: int | None = None

    @property
    def port(self) -> int:
        """The loopback port; it stays the same over restarts."""
        if self._port is None:
            raise ServerFailed("This NATS server is not started.", hint="Call `start()` or use `with`.")
        return self._port

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def halt(self) -> None:
        """The server is down in good order, its data are kept, and `start` brings it back."""
        self._end(signal.SIGTERM)

    def restart(self, *, keep_data: bool = True) -> None:
        """The server accepts connections at the same address, with its data or as new."""
        self.halt()
        if not keep_data:
            shutil.rmtree(self.folder / "data", ignore_errors=True)
        self.start()

    def stop(self) -> None:
        """No process and no file of the server is left. May be called at any time, and again."""
        super().stop()
        self._port = None

    def _launch(self) -> None:
        configuration = self.folder / "nats.conf"
        configuration.write_text(json.dumps(self._configuration()))  # its format takes JSON as it is
        self._run([self.binary.path, "-c", configuration], os.environ, self._says_port)

    def _configuration(self) -> dict[str, object]:
        jetstream: dict[str, object] = {"store_dir": str(self.folder / "data")}
        if self.sync_always:
            jetstream["sync_interval"] = "always"
        return {
            "host": "127.0.0.1",
            # -1 lets the system choose; after that it is kept, so that clients find the server again.
            "port": -1 if self._port is None else self._port,
            "ports_file_dir": str(self.folder),
            "jetstream": jetstream,
        }

    def _says_port(self) -> bool:
        """Whether the server wrote down its port, which it does once it accepts connections."""
        file = self.folder / f"{self.binary.path.name}_{self.pid}.ports"
        try:
            address = json.loads(file.read_text())["nats"][0]
        except (FileNotFoundError, json.JSONDecodeError):
            return False  # not written, or half written
        self._port = int(address.rpartition(":")[2])
        return True
