"""Temporal with its development server, which keeps its state in a SQLite file: WAL and synchronous=FULL, as we say it.

A step is an activity. The server is a process of this contestant and ends with it.
"""

# mypy: ignore-errors

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path

import line
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

QUEUE = "jobs"
RESULT: dict = {}
SOON = timedelta(seconds=60)
RAN = 0


@activity.defn
async def fetch(number: int) -> dict:
    global RAN
    RAN += 1
    return {**RESULT, "status": number}


@workflow.defn
class Series:
    @workflow.run
    async def run(self, steps: int, stay: bool) -> int:
        self.done = 0
        for number in range(steps):
            answer = await workflow.execute_activity(fetch, number, start_to_close_timeout=SOON)
            assert answer["status"] == number
            self.done += 1
        await workflow.wait_condition(lambda: not stay)
        return steps

    @workflow.query
    def where(self) -> int:
        return self.done


def worker_of(client, told):
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[Series],
        activities=[fetch],
        max_concurrent_workflow_tasks=told.concurrency,
        max_concurrent_activities=told.concurrency,
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


async def connect(port):
    for _ in range(600):
        try:
            client = await Client.connect(f"127.0.0.1:{port}")
            await client.count_workflows()
        except RuntimeError:
            await asyncio.sleep(0.1)
        except Exception as failed:
            if "unavailable" not in str(failed).lower() and "not found" not in str(failed).lower():
                raise
            await asyncio.sleep(0.1)
        else:
            return client
    raise TimeoutError("the development server did not come up")


class Peer(line.Work):
    """A server of its own beside the contestant's file."""

    async def open(self):
        RESULT.update(self.told.result)
        path = self.told.address.removeprefix("sqlite:///")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.told.port = probe.getsockname()[1]
        pragmas = ("journal_mode=wal", "synchronous=full")
        self.server = subprocess.Popen(  # noqa: ASYNC220 - nobody waits yet
            [
                *(str(Path(sys.executable).with_name("temporal")), "server", "start-dev", "--headless"),
                *("--ip", "127.0.0.1", "--port", str(self.told.port), "--db-filename", f"{path}.temporal"),
                *(word for pragma in pragmas for word in ("--sqlite-pragma", pragma)),
                *("--log-level", "error"),
            ],
            stdout=subprocess.DEVNULL,
        )
        self.client = await connect(self.told.port)
        self.started = []

    async def run(self, steps):
        name = f"job-{uuid.uuid4()}"
        self.started.append(name)
        return await self.client.start_workflow(Series.run, args=[steps, False], id=name, task_queue=QUEUE)

    async def count(self):
        steps = 0
        for name in self.started:
            history = await self.client.get_workflow_handle(name).fetch_history()
            kinds = [event.WhichOneof("attributes") for event in history.events]
            assert kinds[-1] == "workflow_execution_completed_event_attributes"
            steps += kinds.count("activity_task_completed_event_attributes")
        return {"jobs": len(self.started), "steps": steps}

    def close(self):
        self.server.kill()
        self.server.wait()


class Serial(Peer):
    async def open(self):
        await super().open()
        self.working = asyncio.create_task(worker_of(self.client, self.told).run())

    async def operation(self, number):
        assert await (await self.run(self.told.steps)).result() == self.told.steps


class Queue(Peer):
    async def open(self):
        await super().open()
        self.workers = line.Workers(self.told, self.told.workers)
        self.workers.start()

    async def operation(self, number):
        started = await asyncio.gather(*(self.run(self.told.steps) for _ in range(self.told.jobs)))
        results = await asyncio.gather(*(one.result() for one in started))
        assert results == [self.told.steps] * self.told.jobs

    def close(self):
        self.workers.stop()
        super().close()


class Pickup(Queue):
    async def operation(self, number):
        assert await (await self.run(1)).result() == 1


def worker(told):
    async def run():
        client = await connect(told.port)
        made = worker_of(client, told)
        line.say("ready")
        await made.run()

    RESULT.update(told.result)
    line.end_with_input()
    asyncio.run(run())


class Resume(Peer):
    """A worker that has never seen the workflow: asked where it is, it must replay all of it. The query leaves no
    trace, so every lap finds the same history."""

    async def open(self):
        await super().open()
        made = worker_of(self.client, self.told)
        working = asyncio.create_task(made.run())
        self.handle = await self.client.start_workflow(
            Series.run, args=[self.told.steps, True], id="long", task_queue=QUEUE
        )
        while await self.handle.query(Series.where) < self.told.steps:
            await asyncio.sleep(0.2)
        await made.shutdown()
        await working

    async def begin(self):
        global RAN
        RAN = 0

    async def operation(self, number):
        self.made = worker_of(self.client, self.told)
        self.working = asyncio.create_task(self.made.run())
        assert await self.handle.query(Series.where) == self.told.steps
        return {"again": RAN}

    async def end(self):
        await self.made.shutdown()
        await self.working

    async def count(self):
        return {}


WORKS = {"serial": Serial, "queue": Queue, "pickup": Pickup, "worker": worker, "resume": Resume}

logging.disable(logging.WARNING)
line.main(WORKS)
