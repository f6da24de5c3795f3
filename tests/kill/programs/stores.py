"""Stores to play programs on: memory, a SQLite file or a Postgres database, each in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import selectors
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

import asyncpg

from holdfast.engine.verify.verify import verify
from holdfast.model.ids import SequentialIds
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.clock import Clock, VirtualClock
from holdfast.store.contract import Store
from holdfast.store.interceptor import Call, InterceptedStore
from holdfast.store.memory.store import MemoryStore
from holdfast.store.memory.wakeups import MemoryWakeups
from holdfast.store.postgres.open import open_postgres
from holdfast.store.sqlite.open import open_sqlite
from holdfast.store.tables.store import SqlStore
from holdfast.testing.simulated_process import SimulatedProcess
from holdfast.testing.virtual_loop import SocketlessSelector, VirtualSelector

SPINS_MAX = 200
SPIN_S = 0.01
"""A loop that turns so often without waiting moves the clock by this, as real time would pass."""

LONG_SPINS = 5000
LONG_SPIN_S = 1.0
"""If even that leads to nothing, it moves by more and more, up to this."""

GLANCE_S = 0.05


class Backend(Protocol):
    """Where the stores of plays come from."""

    is_real: bool

    async def open(self, clock: Clock) -> Store:
        """A store with nothing in it."""
        ...


class Memory:
    is_real = False

    async def open(self, clock: Clock) -> Store:
        return MemoryStore(clock, SequentialIds(1))


class Sqlite:
    """A new file for each play, copied from one that is migrated already."""

    is_real = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._template = folder / "template.db"
        asyncio.run(self._make_template())

    async def _make_template(self) -> None:
        store = await open_sqlite(self._template, clock=VirtualClock(), ids=SequentialIds(1))
        await store.close()

    async def open(self, clock: Clock) -> Store:
        path = self._folder / f"play-{next(self._numbers)}.db"
        shutil.copy(self._template, path)
        return await open_sqlite(path, clock=clock, ids=SequentialIds(3))


class Postgres:
    """One database, emptied before each play."""

    is_real = True

    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self, clock: Clock) -> Store:
        await self._empty()
        store = await open_postgres(self._url, clock=clock, ids=SequentialIds(3))
        await store.namespaces.create(DEFAULT_NAMESPACE)
        return store

    async def _empty(self) -> None:
        """What the play before left is gone, and so is its time."""
        connection = await asyncpg.connect(self._url, server_settings={"search_path": "holdfast"})
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast'")
        kept = {"retention_gate", "schema_migrations", "store_clock", "store_state"}
        if tables := ", ".join(sorted(row[0] for row in rows if row[0] not in kept)):
            await connection.execute(f"TRUNCATE {tables}")
            await connection.execute(
                "UPDATE store_clock SET boot = '', offset_us = 0, step_us = 0, epoch = 0, seen_at = 0"
            )
        await connection.close()


async def find_violations(store: Store) -> list[str]:
    """What `holdfast verify` says against a database; nothing, for memory."""
    inner: Any = store.inner if isinstance(store, InterceptedStore) else store
    if not isinstance(inner, SqlStore):
        return []
    report = await verify(inner)
    return [] if report.clean else [str(report)]


def spin_for(spins: int) -> float:
    """How far the clock moves in the nth turn of a loop that only spins."""
    if spins <= SPINS_MAX:
        return 0.0
    return SPIN_S if spins <= LONG_SPINS else min(SPIN_S * (spins - LONG_SPINS), LONG_SPIN_S)


class SpinningSelector(SocketlessSelector):
    """Virtual time that also passes, slowly, while code only spins."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.spun_s = 0.0
        """How much time has passed because code only spun."""
        self.ended = 0
        self.turns = 0
        self._spins = 0

    def progress(self) -> None:
        """Something has happened: spinning is counted anew."""
        self._spins = 0

    def move(self, seconds: float) -> None:
        """The loop turns once, and waits for so long if nothing is ready."""
        self.turns += 1
        if seconds > 0:
            self._spins = 0
            self.now += seconds
            return
        self._spins += 1
        if self._spins > SPINS_MAX:
            seconds = spin_for(self._spins)
            self.spun_s += seconds
            self.now += seconds


class WaitingSelector(VirtualSelector):
    """Virtual time that stands still while a real store is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.spun_s = 0.0
        """How much time has passed because code only spun."""
        self.ended = 0
        """How many calls that write have ended, also those of dead workers."""
        self.when_idle: Callable[[], None] | None = None
        """Called once, when no call is under way any more."""
        self.turns = 0
        self._spins = 0

    def progress(self) -> None:
        """Something has happened: spinning is counted anew."""
        self._spins = 0

    def select(self, timeout: float | None = None) -> Any:
        self.turns += 1
        if self.calls and (timeout is None or timeout > 0):
            return selectors.SelectSelector.select(self, GLANCE_S)
        if timeout is None or timeout > 0:
            self._spins = 0
        else:
            self._spins += 1
            timeout = spin_for(self._spins)
            self.spun_s += timeout
        return super().select(timeout)


READING: Final = frozenset(
    "attempts beat counts find get has head list list_expired load node owners read read_many renew since_commit start "
    "timers wait".split()
)
"""Calls of the store that write nothing about a job: no fault strikes there."""


class CountedStore(InterceptedStore):
    """A real store: its calls are counted, end even if their worker is dead, and hint within the process alone."""

    def __init__(self, store: Store, selector: WaitingSelector, root: SimulatedProcess) -> None:
        super().__init__(store, self._call)
        self._selector = selector
        self._root = root
        self.wakeups: MemoryWakeups = MemoryWakeups()

    async def _call(self, name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = await self._root.adopt(self._count(name, call(*args, **options)))
        if name == "post.send":
            self.wakeups.hint(f"job:{args[0].job_id}")
            self.wakeups.hint("queue:default")
        elif name == "journal.append_many":
            for letter in (letter for append in args[0] for letter in append.extras.letters):
                self.wakeups.hint(f"job:{letter.job_id}")
            self.wakeups.hint("queue:default")
        return result

    async def _count(self, name: str, call: Awaitable[Any]) -> Any:
        self._selector.calls += 1
        try:
            return await call
        finally:
            self._selector.calls -= 1
            self._selector.ended += name.rpartition(".")[2] not in READING
            if not self._selector.calls and self._selector.when_idle is not None:
                when_idle, self._selector.when_idle = self._selector.when_idle, None
                when_idle()
