"""Huey on SQLite, with an fsync for each commit. It has no steps: a step is a job that enqueues the next.

A job is deleted when it is claimed, so a crash loses it: it does less than the others.
"""

# mypy: ignore-errors

from __future__ import annotations

import pickle
import sqlite3
import threading

import line
from huey import SqliteHuey

MADE = {}


def huey_of(told):
    path = told.address.removeprefix("sqlite:///")
    made = SqliteHuey("jobs", filename=path, fsync=True, results=True, store_none=True, timeout=30)

    @made.task(name="chained")
    def chained(job, step, steps, result):
        if step + 1 < steps:
            MADE["chained"](job, step + 1, steps, result)
        return {**result, "status": step, "last": step + 1 == steps}

    MADE["chained"] = chained
    return made


class Queue(line.Work):
    def open(self):
        self.huey = huey_of(self.told)
        self.workers = line.Workers(self.told, self.told.workers)
        self.workers.start()
        path = self.told.address.removeprefix("sqlite:///")
        self.watch = sqlite3.connect(path, isolation_level=None)
        self.before = 0

    def count_stored(self):
        return self.watch.execute("SELECT count(*) FROM kv").fetchone()[0]

    def operation(self, number):
        for job in range(self.told.jobs):
            MADE["chained"](job, 0, self.told.steps, self.told.result)
        self.before += self.told.jobs * self.told.steps
        line.until(lambda: self.count_stored() >= self.before, 0.02)

    def count(self):
        rows = [pickle.loads(row[0]) for row in self.watch.execute("SELECT value FROM kv")]  # noqa: S301 - its own
        return {"steps": len(rows), "jobs": sum(row["last"] for row in rows)}

    def close(self):
        self.workers.stop()


class Pickup(Queue):
    def operation(self, number):
        MADE["chained"](0, 0, 1, self.told.result)
        self.before += 1
        line.until(lambda: self.count_stored() >= self.before, 0.001)


def worker(told):
    line.end_with_input()
    made = huey_of(told)
    consumer = made.create_consumer(workers=told.concurrency, worker_type="thread", periodic=False)
    consumer.start()
    line.say("ready")
    threading.Event().wait()


class Writers(line.Storm):
    """Each write enqueues a job."""

    def open(self):
        huey_of(self.told).storage.close()

    def writer(self, nth):
        huey_of(self.told)
        return lambda number: MADE["chained"](nth, number, 1, self.told.result)

    def count(self):
        with sqlite3.connect(self.told.address.removeprefix("sqlite:///")) as db:
            return {"jobs": db.execute("SELECT count(*) FROM task").fetchone()[0]}


WORKS = {"queue": Queue, "pickup": Pickup, "worker": worker, "writers": Writers}

line.main(WORKS)
