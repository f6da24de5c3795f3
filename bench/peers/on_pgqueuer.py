"""PgQueuer on Postgres. It has no steps: a step is a job that enqueues the next. Completions are buffered for 0.1 s."""

# mypy: ignore-errors

from __future__ import annotations

import asyncio
import json
import logging
from datetime import timedelta

import asyncpg
import line
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

DONE = "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'"


class Peer(line.Work):
    async def open(self):
        self.db = await asyncpg.connect(self.told.address)
        self.watch = await asyncpg.connect(self.told.address)
        self.queries = Queries(AsyncpgDriver(self.db))
        await self.queries.install()
        tables = "SELECT count(*) FROM pg_class WHERE relname IN ('pgqueuer', 'pgqueuer_log') AND relpersistence = 'p'"
        assert await self.watch.fetchval(tables) == 2, "its tables are not durable"

    def payload(self, step, steps):
        return json.dumps({"step": step, "steps": steps, "result": self.told.result}).encode()

    async def count(self):
        return {"steps": await self.watch.fetchval(DONE)}


class Queue(Peer):
    async def open(self):
        await super().open()
        self.workers = line.Workers(self.told, self.told.workers)
        self.workers.start()
        self.before = 0

    async def operation(self, number):
        jobs = self.told.jobs
        await self.queries.enqueue(["chained"] * jobs, [self.payload(0, self.told.steps)] * jobs, [0] * jobs)
        self.before += jobs * self.told.steps
        while await self.watch.fetchval(DONE) < self.before:
            await asyncio.sleep(0.02)

    def close(self):
        self.workers.stop()


class Pickup(Queue):
    async def operation(self, number):
        await self.queries.enqueue("chained", self.payload(0, 1))
        self.before += 1
        while await self.watch.fetchval(DONE) < self.before:
            await asyncio.sleep(0.001)


def worker(told):
    async def run():
        # A pool, so that 32 jobs can enqueue what follows at once.
        async with asyncpg.create_pool(told.address, min_size=4, max_size=10) as pool:
            driver = AsyncpgPoolDriver(pool)
            queries = Queries(driver)
            manager = PgQueuer(driver)

            @manager.entrypoint("chained")
            async def chained(job):
                asked = json.loads(job.payload)
                if asked["step"] + 1 < asked["steps"]:
                    following = asked | {"step": asked["step"] + 1}
                    await queries.enqueue("chained", json.dumps(following).encode())

            working = asyncio.create_task(
                manager.run(batch_size=told.concurrency // 2, max_concurrent_tasks=told.concurrency)
            )
            line.say("ready")
            await working

    logging.disable(logging.ERROR)
    line.end_with_input()
    asyncio.run(run())


class Sweep(Peer):
    """Jobs whose heartbeat is old are taken again by whoever dequeues as many."""

    async def open(self):
        await super().open()
        jobs = self.told.jobs
        await self.queries.enqueue(["chained"] * jobs, [self.payload(0, 1)] * jobs, [0] * jobs)

    async def dequeue(self):
        from uuid import uuid4

        from pgqueuer.ports.repository import EntrypointExecutionParameter

        return await self.queries.dequeue(
            batch_size=self.told.jobs,
            entrypoints={"chained": EntrypointExecutionParameter(concurrency_limit=0)},
            queue_manager_id=uuid4(),
            global_concurrency_limit=None,
            heartbeat_timeout=timedelta(seconds=30),
        )

    async def begin(self):
        await self.dequeue()
        old = "UPDATE pgqueuer SET heartbeat = now() - interval '1 hour' WHERE status = 'picked'"
        assert await self.watch.execute(old) == f"UPDATE {self.told.jobs}"

    async def operation(self, number):
        assert len(await self.dequeue()) == self.told.jobs


WORKS = {"queue": Queue, "pickup": Pickup, "worker": worker, "sweep": Sweep}

line.main(WORKS)
