"""What every server of ours has in common: a folder, a process, a watchdog, and an end that leaves nothing.

             start              halt or kill                   start
    nothing ───────▶ running ──────────────────▶ down, data kept ───────▶ running

    stop, from anywhere: nothing

All of it blocks, for up to a second: from a running event loop call it through `asyncio.to_thread` if others
must go on meanwhile.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from tests.support.servers import places, processes
from tests.support.servers.processes import ServerFailed


class OwnedServer(ABC):
    """One server. Nothing runs and nothing is on disk before `start` and after `stop`."""

    name: ClassVar[str]
    prefix: ClassVar[str]
    ending: ClassVar[signal.Signals]  # ends the server with all its children, sent by the watchdog
    volatile = False  # whether its data may lie in memory

    def __init__(self, account: places.Account | None) -> None:
        self._account = account
        self._folder: Path | None = None
        self._watchdog: processes.Watchdog | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        """Holds the data and the log; gone after `stop`."""
        if self._folder is None:
            raise ServerFailed(
                f"This {self.name} server is not started.", hint="Call `start()` or use `with`."
            )
        return self._folder

    @property
    def pid(self) -> int | None:
        """The server's first process, or `None` while it is down."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def running(self) -> bool:
        return self.pid is not None

    def start(self) -> None:
        """The server accepts connections; calling it on a running server changes nothing."""
        if self.running:
            return
        if self._folder is not None:
            self._launch()
            return
        try:
            self._folder = places.new_folder(self.prefix, self._account, volatile=self.volatile)
            self._watchdog = processes.Watchdog(self._folder, self.ending)
            self._launch_first()
        except BaseException:
            self.stop()
            raise

    def kill(self) -> None:
        """Every process of the server was killed (-9) at once; its data are as they were at that instant."""
        if self._process is not None:
            processes.kill_family(self._process)
            self._forget_process()

    def stop(self) -> None:
        """No process and no file of the server is left. May be called at any time, and again."""
        self.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None
        if self._watchdog is not None:
            self._watchdog.dismiss()
            self._watchdog = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def _launch(self) -> None:
        """The server runs on the data in its folder and accepts connections."""

    def _launch_first(self) -> None:
        """The same in an empty folder."""
        self._launch()

    def _run(
        self, command: Sequence[str | Path], environment: Mapping[str, str], ready: Callable[[], bool]
    ) -> None:
        """The command runs as this server and says that it is ready."""
        log = self.folder / "server.log"
        self._process = process = processes.launch(
            command, home=self.folder, log=log, environment=environment, account=self._account
        )
        self._watch(process.pid)
        processes.wait_until(lambda: process.poll() is not None or ready(), f"{self.name} to be ready")
        if process.poll() is not None:
            raise ServerFailed(f"{self.name} ended with {process.returncode}:\n{processes.log_tail(log)}")

    def _end(self, how: signal.Signals) -> None:
        """The server is down, its data are kept."""
        if self._process is not None:
            processes.end(self._process, how)
            self._forget_process()

    def _watch(self, pid: int | None) -> None:
        if self._watchdog is not None:
            self._watchdog.watch(pid)

    def _forget_process(self) -> None:
        # The watchdog must forget it too: the number may be given to somebody else's process.
        self._process = None
        self._watch(None)
