"""Where contests take place: a folder on a real disk, a Postgres that flushes, and what the machine is."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import apsw
import msgspec

from bench.contest import Contestant
from bench.material import TURNS
from bench.peers.versions import PACKAGES, versions
from bench.places import Database, File, Place
from bench.raw import Entry
from tests.support.servers import PostgresServer

ROOT = Path(__file__).resolve().parent.parent


class Scale(msgspec.Struct, frozen=True):
    """How much is played. The quick form shows that everything works; its figures are rough."""

    rounds: int
    singles: int
    groups: int
    jobs: int
    histories: tuple[int, ...]
    idle_s: float
    storms: tuple[tuple[int, int], ...]
    """Writers at once, and how often each of them writes."""
    waiting: int
    turns: int
    listed: int
    pace: float
    """How long agents are busy between two claims, as a share of the full form's."""


FULL = Scale(
    rounds=4,
    singles=60,
    groups=60,
    jobs=500,
    histories=(1_000, 10_000),
    idle_s=10.0,
    storms=((20, 20), (100, 5)),
    waiting=10_000,
    turns=TURNS,
    listed=100_000,
    pace=1.0,
)
QUICK = Scale(
    rounds=3,
    singles=20,
    groups=10,
    jobs=60,
    histories=(1_000,),
    idle_s=2.0,
    storms=((20, 20),),
    waiting=1_000,
    turns=40,
    listed=2_000,
    pace=0.2,
)


class Arena:
    """Hands out fresh databases. Every contestant has its own, all on the same disk and the same server."""

    def __init__(self, folder: Path, scale: Scale, stores: tuple[str, ...], peers: str = "none") -> None:
        self.folder = folder
        self.scale = scale
        self.stores = stores
        self.peers = peers
        """Who of the others takes part: none, the best, or all."""
        self._numbers = itertools.count(1)
        self._server: PostgresServer | None = None
        self._server_version: str | None = None

    async def enter(self, store: str, *entries: Entry) -> list[Contestant]:
        """A contestant for each entry, each with a fresh database of this store."""
        return [entry(await self.place(store)) for entry in entries]

    async def address(self, store: str) -> str:
        """Where a fresh database of this store is, for whoever is another process."""
        return (await self.place(store)).address

    async def place(self, store: str) -> Place:
        name = f"bench_{next(self._numbers)}"
        if store == "sqlite":
            return File(self.folder / f"{name}.db")
        if self._server is None:
            self._server = PostgresServer(durable=True)
            self._server.start()
            connection = await self._server.connect()
            self._server_version = await connection.fetchval("SHOW server_version")
            await connection.close()
        await self._server.create_database(name)
        return Database(self._server.url(name))

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()

    def machine(self) -> dict[str, Any]:
        """What the figures were taken on; never what they are compared with."""
        return {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "processors": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
            "sqlite": apsw.sqlite_lib_version(),
            "postgres": self._server_version,
            "flush_ms": round(_measure_flush_ms(self.folder), 3),
            "loop_ms": round(_measure_loop_ms(), 3),
            "rounds": self.scale.rounds,
            "peers": {name: versions().get(name) for name in PACKAGES} if self.peers != "none" else {},
        }


@contextlib.asynccontextmanager
async def arena(
    scale: Scale, stores: tuple[str, ...], base: Path | None = None, peers: str = "none"
) -> AsyncIterator[Arena]:
    """An arena in a folder that vanishes with it. Under `build/`, because /tmp may be memory."""
    base = ROOT / "build" if base is None else base
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=base))
    place = Arena(folder, scale, stores, peers)
    try:
        yield place
    finally:
        place.close()
        shutil.rmtree(folder, ignore_errors=True)


def _measure_flush_ms(folder: Path) -> float:
    """How long the disk takes to keep 4 KiB: the median of 50."""
    times = []
    path = folder / "flush"
    with path.open("wb", buffering=0) as file:
        for _ in range(50):
            began = perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno()) if hasattr(os, "fdatasync") else os.fsync(file.fileno())
            times.append(perf_counter() - began)
    path.unlink()
    return median(times) * 1000


def _measure_loop_ms() -> float:
    """How long a fixed piece of Python takes: the median of 5."""
    times = []
    for _ in range(5):
        began = perf_counter()
        sum(number * number for number in range(100_000))
        times.append(perf_counter() - began)
    return median(times) * 1000
