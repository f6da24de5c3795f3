"""Procrastinate on Postgres. It has no steps: a step is a job that enqueues the next."""

# mypy: ignore-errors

from __future__ import annotations

import asyncio
import logging

import line
import procrastinate
import psycopg


def app_of(told):
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=told.address, max_size=10))

    @app.task(name="chained", queue="jobs", retry=False)
    async def chained(step, steps, result):
        if step + 1 < steps:
            await chained.defer_async(step=step + 1, steps=steps, result={**result, "status": step})
        return step

    app.chained = chained
    return app


class Peer(line.Work):
    async def open(self):
        self.watch = await psycopg.AsyncConnection.connect(self.told.address, autocommit=True)
        self.app = app_of(self.told)
        await self.app.open_async()
        await self.app.schema_manager.apply_schema_async()

    async def one(self, sql, *values):
        return (await (await self.watch.execute(sql, values)).fetchone())[0]

    async def count_done(self):
        return await self.one("SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'")

    async def count(self):
        last = (
            "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded' AND (args->>'step')::int = %s"
        )
        return {"steps": await self.count_done(), "jobs": await self.one(last, self.told.steps - 1)}


class Queue(Peer):
    async def open(self):
        await super().open()
        self.workers = line.Workers(self.told, self.told.workers)
        self.workers.start()
        self.before = 0

    async def operation(self, number):
        told = {"step": 0, "steps": self.told.steps, "result": self.told.result}
        await self.app.chained.batch_defer_async(*(told for _ in range(self.told.jobs)))
        self.before += self.told.jobs * self.told.steps
        while await self.count_done() < self.before:
            await asyncio.sleep(0.02)

    def close(self):
        self.workers.stop()


class Pickup(Queue):
    async def operation(self, number):
        job = await self.app.chained.defer_async(step=0, steps=1, result=self.told.result)
        sql = "SELECT count(*) FROM procrastinate_jobs WHERE id = %s AND status = 'succeeded'"
        while not await self.one(sql, job):
            await asyncio.sleep(0.001)


def worker(told):
    async def run():
        app = app_of(told)
        async with app.open_async():
            working = asyncio.create_task(
                app.run_worker_async(concurrency=told.concurrency, install_signal_handlers=False)
            )
            line.say("ready")
            await working

    line.end_with_input()
    asyncio.run(run())


class Sweep(Peer):
    """Jobs of a worker whose heartbeat stopped: found by one query, then retried one by one, as its manual says."""

    async def open(self):
        await super().open()
        told = {"step": 0, "steps": 1, "result": self.told.result}
        await self.app.chained.batch_defer_async(*(told for _ in range(self.told.jobs)))

    async def begin(self):
        await self.watch.execute(
            "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 hour')"
        )
        await self.watch.execute(
            "UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT max(id) FROM procrastinate_workers)"
        )

    async def operation(self, number):
        stalled = list(await self.app.job_manager.get_stalled_jobs())
        assert len(stalled) == self.told.jobs, len(stalled)
        for job in stalled:
            await self.app.job_manager.retry_job(job)

    async def end(self):
        put_back = await self.one("SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'")
        assert put_back == self.told.jobs, put_back


WORKS = {"queue": Queue, "pickup": Pickup, "worker": worker, "sweep": Sweep}

logging.disable(logging.WARNING)  # it warns that this is a program, which it is
line.main(WORKS)
