"""A server in front of a store, agents that take work from it, and somebody who submits it and looks."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from holdfast.client import ExternalAgent, RemoteClient
from holdfast.client.local_token import find_token
from holdfast.client.work_records import WorkView
from holdfast.errors import NotOver
from holdfast.runtime import open_store
from holdfast.server.settings import Settings
from holdfast.store.clock import SystemClock
from tests.api.server.served import served
from tests.support.project import ROOT

LEASE_S = 4
"""Short, and still longer than a loaded machine stands still."""


@asynccontextmanager
async def place(folder: Path, settings: Settings | None = None) -> AsyncIterator[RemoteClient]:
    """Somebody who speaks to a server of this test's own, in its loop."""
    store = await open_store(f"sqlite:///{folder / 'work.db'}")
    try:
        async with served(store, SystemClock(), settings) as url, RemoteClient(url) as client:
            yield client
    finally:
        await store.close()


def agent(client: RemoteClient, handle: str = "summer", **more: object) -> ExternalAgent:
    given = {"lease_seconds": LEASE_S, "wait_seconds": 2, "grace_s": 5.0, **more}
    return ExternalAgent(client._url, handle=handle, **given)  # type: ignore[arg-type]


@asynccontextmanager
async def serving(*agents: ExternalAgent) -> AsyncIterator[None]:
    """They take work; at the end they are drained and hold nothing."""
    tasks = [asyncio.create_task(_serve(one)) for one in agents]
    try:
        yield
    finally:
        for one in agents:
            one.drain(at_once=True)
        await asyncio.gather(*tasks)


async def _serve(one: ExternalAgent) -> None:
    async with one:
        await one.serve()


async def until(client: RemoteClient, work_id: str, holds: Callable[[WorkView], bool]) -> WorkView:
    """The work item, as soon as this holds for it. Between looks it waits for its end, for a moment."""
    while not holds(work := await client.get_work(work_id)):
        with suppress(NotOver):
            await client.result(work_id, timeout_s=0.05)
    return work


async def ended(client: RemoteClient, work_id: str, status: str = "completed") -> WorkView:
    """The work item, which is over, and this way."""
    work = await until(client, work_id, lambda work: work.over or work.status == "dead-letter")
    assert work.status == status, work
    return work


async def facts(client: RemoteClient, work_id: str) -> Counter[str]:
    return Counter(event.type for event in await client.events(work_id))


# ── processes ─────────────────────────────────────────────────────────────────────────────────────


class Processes:
    """What was started here is ended by `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self._all: list[subprocess.Popen[bytes]] = []

    def serve(self) -> subprocess.Popen[bytes]:
        """The API is up; again at the address it had, if it was up before."""
        port = self.url.rpartition(":")[2] or "0"
        arguments = (
            "-m",
            "holdfast",
            "serve",
            "--port",
            port,
            "--store",
            f"sqlite:///{self.folder / 'work.db'}",
        )
        api, found = self.start(*arguments, said=r"listening on (http://\S+);")
        self.url = found[1]
        return api

    def agent(
        self, handle: str, *arguments: str, said: str = "serves"
    ) -> tuple[subprocess.Popen[bytes], Path]:
        """One more agent, and what it says."""
        script = str(ROOT / "tests/api/external_agents/summer.py")
        process, _ = self.start(script, self.url, handle, *arguments, said=said)
        return process, self._log(len(self._all))

    def start(
        self, *arguments: str, said: str, within: Sequence[str] = (), **environment: str
    ) -> tuple[subprocess.Popen[bytes], re.Match[str]]:
        log = self._log(len(self._all) + 1)
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*within, sys.executable, *arguments],
                env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self._all.append(process)
        return process, self.hear(process, log, said)

    def hear(self, process: subprocess.Popen[bytes], log: Path, said: str) -> re.Match[str]:
        """What the process said, once it has."""
        pause = threading.Event()
        while (found := re.search(said, log.read_text(errors="replace"))) is None:
            assert process.poll() is None, log.read_text(errors="replace")
            pause.wait(0.02)
        return found

    def log_of(self, process: subprocess.Popen[bytes]) -> Path:
        return self._log(self._all.index(process) + 1)

    def _log(self, number: int) -> Path:
        return self.folder / f"process-{number}.log"

    def token(self) -> str:
        token = find_token(self.url)
        assert token is not None
        return token

    def kill(self, process: subprocess.Popen[bytes], how: int = signal.SIGKILL) -> int:
        process.send_signal(how)
        return process.wait(60)

    def close(self) -> None:
        for process in self._all:
            process.kill()
            process.wait(60)


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    made = Processes(folder)
    try:
        yield made
    finally:
        made.close()
