"""Stores that really run at the same time, and what races do with them.

The databases here tell the real time: a lease of 300 ms is over after 300 ms. A test waits for that as for anything
else, by asking until it is so (`until`).

SQLite's executor may write on the caller's own event loop, so two handles on one loop take turns and never race. A
`Crew` therefore gives each handle a thread with a loop of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from holdfast.errors import HoldfastError
from holdfast.model.hash_chain import find_break
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobDraft
from holdfast.model.lease import LEASE_TTL_US
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store
from holdfast.store.ports.leases import ClaimRequest
from holdfast.store.sqlite.executor import SqliteExecutor
from holdfast.store.tables.store import SqlStore
from holdfast.testing.conformance.driver import Driver

T = TypeVar("T")

BOTH: Final = ("sqlite", "postgres")
PATIENCE_S: Final = 60.0
POLL_S: Final = 0.01
CLOCK: Final = SystemClock()

_names = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a database is: what a child process needs to know to open it."""

    store: str
    address: str


async def open_at(place: Place, *, patience_s: float = PATIENCE_S) -> Store:
    """A handle on the database, patient enough that only a hang can make it give up."""
    if place.store == "sqlite":
        from holdfast.store.sqlite.open import open_sqlite

        return await open_sqlite(Path(place.address), clock=CLOCK, ids=RandomIds(), patience_s=patience_s)
    from holdfast.store.postgres.open import open_postgres

    return await open_postgres(place.address, ids=RandomIds(), patience_s=patience_s)


@asynccontextmanager
async def opened(place: Place, *, patience_s: float = PATIENCE_S) -> AsyncIterator[Store]:
    store = await open_at(place, patience_s=patience_s)
    try:
        yield store
    finally:
        await store.close()


def sqlite_of(store: Store) -> SqliteExecutor:
    """The executor behind a store on SQLite, for a test that has to look inside."""
    assert isinstance(store, SqlStore)
    assert isinstance(store.executor, SqliteExecutor)
    return store.executor


async def until(condition: Callable[[], Awaitable[T | None]], what: str) -> T:
    """What the condition gave as soon as it gave something."""
    deadline = time.monotonic() + PATIENCE_S
    while not (result := await condition()):
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s for {what}"
        await asyncio.sleep(POLL_S)
    return result


# ── jobs ──────────────────────────────────────────────────────────────────────────────────────────


def fresh(word: str) -> str:
    """A name that no test of this process has used."""
    return f"{word}-{next(_names)}"


async def driving(
    store: Store,
    count: int = 1,
    *,
    ttl_us: int = LEASE_TTL_US,
    queue: str | None = None,
    worker: str = "worker",
) -> list[Driver]:
    """New jobs in a queue, by default one of their own, and the hold on each."""
    queue = queue or fresh("queue")
    await store.jobs.submit_many([JobDraft(kind="work", queue=queue) for _ in range(count)])
    drivers = await taken(store, queue, limit=count, ttl_us=ttl_us, worker=worker)
    assert len(drivers) == count, f"{len(drivers)} of {count} jobs were granted"
    return drivers


async def taken(
    store: Store, queue: str, *, limit: int = 1, ttl_us: int = LEASE_TTL_US, worker: str = "worker"
) -> list[Driver]:
    """The holds that one claim gives."""
    ask = ClaimRequest(worker=worker, token=fresh(worker), queues=(queue,), limit=limit, ttl_us=ttl_us)
    return [Driver(store, CLOCK, grant) for grant in await store.leases.claim(ask)]


async def check_journal(store: Store, job_id: str) -> list[bytes]:
    """The hashes of a journal without gap, fork or forgery, which ends at the job's head."""
    events = await store.journal.read(job_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1)), "seq has no gap"
    assert find_break(job_id, events) is None, "every event is sealed to the one before"
    fences = [event.fence for event in events]
    assert fences == sorted(fences), "fences never go back"
    head = await store.jobs.head(job_id)
    assert (head.head_seq, head.head_hash) == (len(events), events[-1].hash), "the head is the last event"
    return [event.hash for event in events]


# ── several handles at once ───────────────────────────────────────────────────────────────────────


class Hand:
    """One handle with a thread and an event loop to itself."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.store: Store
        self._thread = threading.Thread(target=self.loop.run_forever, name=name)
        self._thread.start()

    async def do(self, call: Callable[[Store], Awaitable[T]]) -> T:
        """The answer of this call, made on this handle's own loop."""

        async def made() -> T:
            return await call(self.store)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(made(), self.loop))

    async def open(self, place: Place) -> None:
        self.store = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(open_at(place), self.loop))

    async def close(self) -> None:
        if hasattr(self, "store"):
            await self.do(lambda store: store.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        await asyncio.to_thread(self._thread.join)
        self.loop.close()


@asynccontextmanager
async def crew(place: Place, size: int) -> AsyncIterator[list[Hand]]:
    """So many handles on one database."""
    hands = [Hand(f"hand-{number}") for number in range(size)]
    try:
        for hand in hands:
            await hand.open(place)
        yield hands
    finally:
        for hand in hands:
            await hand.close()


async def together(*calls: Awaitable[T]) -> list[T | HoldfastError]:
    """What became of calls made at the same time; only our own errors are an outcome."""
    outcomes: Sequence[T | BaseException] = await asyncio.gather(*calls, return_exceptions=True)
    kept: list[T | HoldfastError] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, HoldfastError):
            raise outcome
        kept.append(outcome)
    return kept


def kinds(outcomes: Sequence[Any]) -> list[str]:
    """The names of what came back, for a message."""
    return [type(outcome).__name__ for outcome in outcomes]
