"""Jobs through a queue with nothing around them: 32 tasks, and whatever they have to write goes in group commits.

Every job is eight facts: created, claimed, five steps, completed. All jobs are created in one commit; the others wait,
fact by fact, until theirs is durable. While one commit is on its way, what the other tasks write meanwhile gathers for
the next: the ceiling of any engine that keeps one job's facts in order and lets jobs share a commit. It has no leases,
no hashes, no replay and no outcome for each.

`WavesBy…` is the same without tasks, gathered by hand: what the database could do if nobody had to be told anything.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from bench.material import AT, BODY, FENCE, GROUP, HASH, STEPS_PER_JOB
from bench.raw import postgres, sqlite
from holdfast.model.ids import RandomIds

FACTS = STEPS_PER_JOB + 2
"""What is written after the job was created."""

Write = tuple[str, int]
"""A job and the place of its next fact."""


class _Tasks:
    """Makes and drives the jobs; how facts reach the disk is the subclass's."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.ids = RandomIds()
        self.waiting: list[tuple[Write, asyncio.Future[None]]] = []

    def new_jobs(self) -> list[str]:
        return [self.ids.new("job") for _ in range(self.jobs)]

    def send(self) -> None:
        """Somebody takes what is waiting, soon."""
        raise NotImplementedError

    async def all_done(self, jobs: Sequence[str]) -> None:
        left = iter(jobs)
        await asyncio.gather(*(self._slot(left) for _ in range(GROUP)))

    async def _slot(self, left: Iterator[str]) -> None:
        loop = asyncio.get_running_loop()
        for job_id in left:
            for seq in range(2, 2 + FACTS):
                future = loop.create_future()
                self.waiting.append(((job_id, seq), future))
                self.send()
                await future

    def take(self) -> tuple[list[Write], list[asyncio.Future[None]]]:
        taken, self.waiting = self.waiting, []
        return [write for write, _ in taken], [future for _, future in taken]


def waves(jobs: Sequence[str]) -> Iterator[list[Write]]:
    """What is written together when a wave of jobs goes hand in hand."""
    for first in range(0, len(jobs), GROUP):
        for seq in range(2, 2 + FACTS):
            yield [(job_id, seq) for job_id in jobs[first : first + GROUP]]


def set_results(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


def rows(writes: Sequence[Write]) -> list[tuple[Any, ...]]:
    return [(job_id, seq, "step_finished", 1, FENCE, AT, BODY, HASH, HASH) for job_id, seq in writes]


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────


class _Sqlite(sqlite.RawSqlite):
    schema = sqlite.EVENTS

    def create(self, jobs: Sequence[str]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany("INSERT INTO heads VALUES (?, 1, ?)", [(job_id, HASH) for job_id in jobs])
        self.db.executemany(sqlite.INSERT_EVENT, rows([(job_id, 1) for job_id in jobs]))
        self.db.execute("COMMIT")

    def commit(self, writes: Sequence[Write]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany(sqlite.UPDATE_HEAD, [(seq, HASH, job_id) for job_id, seq in writes])
        self.db.executemany(sqlite.INSERT_EVENT, rows(writes))
        self.db.execute("COMMIT")


class SqliteTasks(_Tasks, _Sqlite):
    """A thread writes, so that the loop goes on while the disk is busy."""

    name = f"raw group commit, {GROUP} tasks"

    def __init__(self, place: Any, jobs: int) -> None:
        _Tasks.__init__(self, jobs)
        _Sqlite.__init__(self, place)
        self.rows_per_operation = jobs
        self.queued = threading.Event()
        self.closing = False

    async def open(self) -> None:
        await super().open()
        self.loop = asyncio.get_running_loop()
        self.thread = threading.Thread(target=self._write_on, daemon=True)
        self.thread.start()

    def send(self) -> None:
        self.queued.set()

    def _write_on(self) -> None:
        while True:
            self.queued.wait()
            self.queued.clear()
            if self.closing:
                return
            writes, futures = self.take()
            if writes:
                self.commit(writes)
                self.loop.call_soon_threadsafe(set_results, futures)

    async def operation(self, number: int) -> None:
        jobs = self.new_jobs()
        self.create(jobs)
        await self.all_done(jobs)

    async def close(self) -> None:
        self.closing = True
        self.queued.set()
        await asyncio.get_running_loop().run_in_executor(None, self.thread.join)
        await super().close()


class SqliteWaves(_Sqlite):
    name = "raw group commit, by hand"

    def __init__(self, place: Any, jobs: int) -> None:
        super().__init__(place)
        self.maker = _Tasks(jobs)
        self.rows_per_operation = jobs

    async def operation(self, number: int) -> None:
        jobs = self.maker.new_jobs()
        self.create(jobs)
        for writes in waves(jobs):
            self.commit(writes)


# ── Postgres ──────────────────────────────────────────────────────────────────────────────────────


class _Postgres(postgres.RawPostgres):
    schema = postgres.EVENTS

    async def prepare(self) -> None:
        self.both: Any = await self.db.prepare(postgres.WRITE_BOTH)
        self.heads: Any = await self.db.prepare(
            "INSERT INTO heads SELECT job_id, 1, $2 FROM unnest($1::text[]) AS i (job_id)"
        )
        self.events: Any = await self.db.prepare(postgres.INSERT_EVENTS)

    async def create(self, jobs: Sequence[str]) -> None:
        async with self.db.transaction():
            await self.heads.fetch(list(jobs), HASH)
            await self.events.fetch(*_build_columns([(job_id, 1) for job_id in jobs]))

    async def commit(self, writes: Sequence[Write]) -> None:
        await self.both.fetch(*_build_columns(writes))


def _build_columns(writes: Sequence[Write]) -> tuple[list[Any], ...]:
    same = ("step_finished", 1, FENCE, AT, BODY, HASH, HASH)
    job_ids, seqs = [job_id for job_id, _ in writes], [seq for _, seq in writes]
    return (job_ids, seqs, *(list(itertools.repeat(value, len(writes))) for value in same))


class PostgresTasks(_Tasks, _Postgres):
    name = f"raw group commit, {GROUP} tasks"

    def __init__(self, place: Any, jobs: int) -> None:
        _Tasks.__init__(self, jobs)
        _Postgres.__init__(self, place)
        self.rows_per_operation = jobs
        self.writing: asyncio.Task[None] | None = None

    def send(self) -> None:
        if self.writing is None:
            self.writing = asyncio.get_running_loop().create_task(self._write_on())

    async def _write_on(self) -> None:
        while self.waiting:
            writes, futures = self.take()
            await self.commit(writes)
            set_results(futures)
        self.writing = None

    async def operation(self, number: int) -> None:
        jobs = self.new_jobs()
        await self.create(jobs)
        await self.all_done(jobs)


class PostgresWaves(_Postgres):
    name = "raw group commit, by hand"

    def __init__(self, place: Any, jobs: int) -> None:
        super().__init__(place)
        self.maker = _Tasks(jobs)
        self.rows_per_operation = jobs

    async def operation(self, number: int) -> None:
        jobs = self.maker.new_jobs()
        await self.create(jobs)
        for writes in waves(jobs):
            await self.commit(writes)


TASKS: dict[str, type[SqliteTasks | PostgresTasks]] = {"sqlite": SqliteTasks, "postgres": PostgresTasks}
BY_HAND: dict[str, type[SqliteWaves | PostgresWaves]] = {
    "sqlite": SqliteWaves,
    "postgres": PostgresWaves,
}
