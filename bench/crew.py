"""Holdfast with its workers in processes of their own: how peers run too, so this is what they are compared with."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import holdfast as hf
from bench.contest import Contestant
from bench.material import GROUP, RESULT, STEPS_PER_JOB
from bench.places import Place
from holdfast.client.in_process import EmbeddedClient
from holdfast.model.ids import RandomIds
from holdfast.model.states import Status
from holdfast.store.clock import SystemClock

app = hf.App(os.environ.get("HOLDFAST_STORE", "memory:"), concurrency=GROUP)


@app.tool(effect="read_only")
async def fetch(number: int) -> dict[str, Any]:
    return {**RESULT, "status": number}


@app.agent
async def small(nth: int) -> int:
    for number in range(STEPS_PER_JOB):
        await fetch(number)
    return nth


@app.agent
async def waiting(nth: int) -> int:
    await fetch(nth)
    await hf.sleep(3600)
    return nth


class Crew(Contestant):
    """This process submits and waits; so many others work."""

    inside = False
    workers: int

    def __init__(self, place: Place, jobs: int) -> None:
        super().__init__(place)
        self.rows_per_operation = jobs
        self.before = 0

    async def open(self) -> None:
        self.store = await self.place.open_store()
        self.client = EmbeddedClient(self.store, SystemClock(), RandomIds())
        self.processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "holdfast", "worker", "bench.crew:app", "--log-level", "warning"),
                env={**os.environ, "HOLDFAST_STORE": self.place.address},
                stderr=asyncio.subprocess.DEVNULL,
            )
            for _ in range(self.workers)
        ]

    async def operation(self, number: int) -> None:
        jobs = range(self.rows_per_operation)
        submitted = await self.store.jobs.submit_many([small.draft({"nth": nth}) for nth in jobs])
        self.before += self.rows_per_operation
        # To count jobs is to look at all of them: again and again it would take as long as the work. The last result is
        # waited for first, as a user would.
        await self.client.result(submitted[-1].job_id)
        while await self._count_completed() < self.before:  # noqa: ASYNC110 - of the store, not of an event here
            await asyncio.sleep(0.005)

    async def _count_completed(self) -> int:
        return (await self.store.jobs.counts()).get(Status.COMPLETED, 0)

    async def close(self) -> None:
        assert await self._count_completed() == self.before, "a job was made twice"
        await self.end_workers()

    async def end_workers(self) -> None:
        for worker in self.processes:
            worker.terminate()
            await worker.wait()
        await self.store.close()


class OneWorker(Crew):
    name = f"holdfast, 1 worker process, {GROUP} at a time"
    workers = 1


class TwoWorkers(Crew):
    name = f"holdfast, 2 worker processes, {GROUP} at a time"
    workers = 2
