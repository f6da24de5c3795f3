"""What one strict step and one queued job cost the database: statements, commits, round trips, pages of the log.

Counted by the drivers themselves, so nothing is left out: by SQLite's tracer, and by whatever is sent to Postgres. The
figures may fall, and are then lowered; they do not rise. Each is the least of a few tries, since a worker asks for jobs
now and then whether or not there are any.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import apsw
import asyncpg
import pytest

import holdfast as hf
from holdfast.client.in_process import EmbeddedClient
from holdfast.model.ids import RandomIds
from holdfast.runtime.process import Process
from holdfast.store.clock import SystemClock
from holdfast.store.postgres.executor import PostgresExecutor
from holdfast.store.sqlite.connection import connect as open_file
from holdfast.store.sqlite.executor import SqliteExecutor
from holdfast.store.tables.store import SqlStore

_WRITES: Final = re.compile("INSERT |UPDATE |DELETE ")
TRIES: Final = 5
STEPS: Final = 4  # fewer than are written on the spot in a row

STRICT_STEP: Final = {
    "sqlite": {"statements": 4, "commits": 1, "pages": 4},
    "postgres": {"round trips": 1, "commits": 1},
}
"""On SQLite: BEGIN, the head, the event, COMMIT. On Postgres one statement that is its own transaction."""

QUEUED_JOB: Final = {
    "sqlite": {"statements": 22, "commits": 3, "pages": 23},
    "postgres": {"round trips": 5, "commits": 3},
}
"""Submitted by one process, driven and ended by its worker, its result read."""

RESULT_READ: Final = {
    "sqlite": {"statements": 1, "commits": 0, "pages": 0},
    "postgres": {"round trips": 1, "commits": 0},
}
"""By a client, once the job is over: the head, and the journal beside it."""


class Tally:
    """What the drivers did since the last look."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.pages = 0
        self._writer: apsw.Connection | None = None

    def on_sqlite(self, executor: SqliteExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
        def connect(*told: Any, **more: Any) -> apsw.Connection:
            connection = open_file(*told, **more)
            connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._traced)
            return connection

        monkeypatch.setattr("holdfast.store.sqlite.executor.connect", connect)
        executor.writer.trace_v2(apsw.SQLITE_TRACE_STMT, self._traced)
        self._writer = executor.writer
        self.take()

    def _traced(self, told: Any) -> None:
        if told.get("trigger"):
            return
        self.seen["statements"] += 1
        self.seen["commits"] += told["sql"].startswith("COMMIT")

    def on_postgres(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A transaction is begun and ended by `execute` as well."""
        for name in ("fetch", "execute"):
            monkeypatch.setattr(asyncpg.Connection, name, self._watched(getattr(asyncpg.Connection, name)))

    def _watched(self, plain: Any) -> Any:
        async def watched(connection: Any, query: str, *told: Any, **more: Any) -> Any:
            if "pg_notify" not in query:  # hints go beside, and nobody waits for them
                self.seen["round trips"] += 1
                changes = not connection.is_in_transaction() and _WRITES.search(query) is not None
                self.seen["commits"] += query.startswith("COMMIT") or changes
            return await plain(connection, query, *told, **more)

        return watched

    def take(self) -> dict[str, int]:
        if self._writer is not None:
            self.seen["pages"] = self._writer.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE, True)[0]
        seen, self.seen = dict(self.seen), Counter()
        return seen


Job = Callable[[int], Awaitable[Any]]


@asynccontextmanager
async def counted(
    address: str, monkeypatch: pytest.MonkeyPatch, read: Callable[[Process], Job] | None = None
) -> AsyncIterator[tuple[Job, Tally]]:
    app = hf.App(address, durability="strict")

    @app.tool(effect="read_only")
    async def look(number: int) -> int:
        return number

    @app.agent
    async def looking(steps: int) -> int:
        for number in range(steps):
            await look(number)
        return steps

    tally = Tally()
    async with app.running() as process:
        assert isinstance(process, Process)
        assert isinstance(process.store, SqlStore)
        executor = process.store.executor
        for _ in range(TRIES):
            await looking(1)  # connections are open, statements known
        if isinstance(executor, SqliteExecutor):
            tally.on_sqlite(executor, monkeypatch)
        else:
            assert isinstance(executor, PostgresExecutor)
            tally.on_postgres(monkeypatch)
        yield (looking if read is None else read(process)), tally


async def least(job: Job, tally: Tally, steps: int) -> dict[str, int]:
    found = []
    for _ in range(TRIES):
        tally.take()
        await job(steps)
        found.append(tally.take())
    return {name: min(one.get(name, 0) for one in found) for name in found[0]}


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Any) -> tuple[str, str]:
    if request.param == "postgres":
        return "postgres", str(request.getfixturevalue("postgres_database"))
    return "sqlite", f"sqlite:///{tmp_path / 'holdfast.db'}"


async def test_what_a_queued_job_costs(address: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    store, where = address
    async with counted(where, monkeypatch) as (job, tally):
        cost = await least(job, tally, 0)
    most = dict(QUEUED_JOB[store])
    for name in ("pages", "round trips"):  # who looks at a job that has ended meanwhile looks once
        assert cost.pop(name, 0) <= most.pop(name, 0)
    assert cost == most


async def test_what_reading_a_result_costs(address: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    store, where = address

    def read(process: Process) -> Job:
        client = EmbeddedClient(process.store, SystemClock(), RandomIds())

        async def once(number: int) -> None:
            (job,) = await client.list(limit=1)
            tally.take()
            assert (await client.result(job.job_id)).output == number

        return once

    async with counted(where, monkeypatch, read) as (job, tally):
        assert await least(job, tally, 1) == RESULT_READ[store]


async def test_what_a_strict_step_costs(address: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs that differ by some steps differ by that."""
    store, where = address
    async with counted(where, monkeypatch) as (job, tally):
        short, long = await least(job, tally, 1), await least(job, tally, 1 + STEPS)
    # Rounded: who waits for the result of either looks once, or once more.
    cost = {name: round((long[name] - short[name]) / STEPS) for name in long}
    assert cost.pop("pages", 0) <= STRICT_STEP[store].get("pages", 0)
    assert cost == {name: figure for name, figure in STRICT_STEP[store].items() if name != "pages"}
