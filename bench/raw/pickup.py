"""A job that finds an idle worker, with nothing around it: four commits, and a hint that wakes somebody.

Submitted, claimed, its step recorded together with its end, its result read by whoever waits. On SQLite the hint is an
event of the loop, on Postgres a NOTIFY that the submitting commit carries: what the store itself would use.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from bench.material import AT, BODY, FENCE, HASH
from bench.raw import postgres, sqlite
from holdfast.model.ids import RandomIds

FACTS = (("job_claimed",), ("step_finished", "job_completed"))


class SqlitePickup(sqlite.RawSqlite):
    name = "raw, submit, claim, complete"
    schema = sqlite.EVENTS

    async def open(self) -> None:
        await super().open()
        self.ids = RandomIds()
        self.queued: asyncio.Queue[str] = asyncio.Queue()
        self.done: asyncio.Queue[str] = asyncio.Queue()
        self.working = asyncio.create_task(self._work())

    async def operation(self, number: int) -> None:
        job_id = self.ids.new("job")
        execute = self.db.execute
        execute("BEGIN IMMEDIATE")
        execute("INSERT INTO heads VALUES (?, 1, ?)", (job_id, HASH))
        execute(sqlite.INSERT_EVENT, _fact(job_id, 1, "job_created"))
        execute("COMMIT")
        self.queued.put_nowait(job_id)
        assert await self.done.get() == job_id
        assert len(list(execute("SELECT body FROM events WHERE job_id = ?", (job_id,)))) == 4

    async def _work(self) -> None:
        while True:
            job_id, seq = await self.queued.get(), 1
            for facts in FACTS:
                self.db.execute("BEGIN IMMEDIATE")
                for kind in facts:
                    seq += 1
                    self.db.execute(sqlite.INSERT_EVENT, _fact(job_id, seq, kind))
                self.db.execute(sqlite.UPDATE_HEAD, (seq, HASH, job_id))
                self.db.execute("COMMIT")
            self.done.put_nowait(job_id)

    async def close(self) -> None:
        self.working.cancel()
        await super().close()


class PostgresPickup(postgres.RawPostgres):
    name = "raw, submit, claim, complete"
    schema = postgres.EVENTS

    async def prepare(self) -> None:
        self.ids = RandomIds()
        self.worker: Any = await asyncpg.connect(self.url, server_settings={"synchronous_commit": "on"})
        self.queued: asyncio.Queue[str] = asyncio.Queue()
        self.done: asyncio.Queue[str] = asyncio.Queue()
        await self.worker.add_listener("queued", lambda *told: self.queued.put_nowait(told[-1]))
        await self.db.add_listener("done", lambda *told: self.done.put_nowait(told[-1]))
        self.working = asyncio.create_task(self._work())

    async def operation(self, number: int) -> None:
        job_id = self.ids.new("job")
        async with self.db.transaction():
            await self.db.execute("INSERT INTO heads VALUES ($1, 1, $2)", job_id, HASH)
            await self.db.execute(postgres.INSERT_EVENT, *_fact(job_id, 1, "job_created"))
            await self.db.execute("SELECT pg_notify('queued', $1)", job_id)
        assert await self.done.get() == job_id
        assert len(await self.db.fetch("SELECT body FROM events WHERE job_id = $1", job_id)) == 4

    async def _work(self) -> None:
        while True:
            job_id, seq = await self.queued.get(), 1
            for nth, facts in enumerate(FACTS):
                async with self.worker.transaction():
                    for kind in facts:
                        seq += 1
                        await self.worker.execute(postgres.INSERT_EVENT, *_fact(job_id, seq, kind))
                    await self.worker.execute(postgres.UPDATE_HEAD, seq, HASH, job_id)
                    if nth:
                        await self.worker.execute("SELECT pg_notify('done', $1)", job_id)

    async def close(self) -> None:
        self.working.cancel()
        await self.worker.close()
        await super().close()


def _fact(job_id: str, seq: int, kind: str) -> tuple[Any, ...]:
    return (job_id, seq, kind, 1, FENCE, AT, BODY, HASH, HASH)


PICKUP: dict[str, type[SqlitePickup | PostgresPickup]] = {"sqlite": SqlitePickup, "postgres": PostgresPickup}
