"""Absurd on Postgres. As shipped it polls each 250 ms; tuned, each 10 ms."""

# mypy: ignore-errors

from __future__ import annotations

import threading
import time

import absurdctl
import line
import psycopg
from absurd_sdk import Absurd

QUEUE = "jobs"


class Peer(line.Work):
    """The tables are there, and a task of many steps is known."""

    live_from = None

    def open(self):
        self.watch = psycopg.connect(self.told.address, autocommit=True)
        if not self.one("SELECT count(*) FROM pg_namespace WHERE nspname = 'absurd'"):
            self.watch.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        self.absurd = connect(self.told, self.fetch)
        self.absurd.create_queue(QUEUE)
        self.again, self.reached = 0, threading.Event()

    def fetch(self, number):
        if self.live_from is not None:
            if number >= self.live_from:
                self.reached.set()
                threading.Event().wait()  # the process is killed here
            self.again += 1
        return {**self.told.result, "status": number}

    def one(self, sql, *values):
        return self.watch.execute(sql, values).fetchone()[0]

    def count_done(self):
        return self.one("SELECT count(*) FROM absurd.t_jobs WHERE state = 'completed'")

    def count(self):
        return {"jobs": self.count_done(), "steps": self.one("SELECT count(*) FROM absurd.c_jobs")}


def connect(told, fetch):
    absurd = Absurd(told.address, queue_name=QUEUE)

    @absurd.register_task("series", queue=QUEUE)
    def series(params, context):
        for number in range(params["steps"]):
            assert context.step(f"fetch-{number}", lambda number=number: fetch(number))["status"] == number
        return params["steps"]

    return absurd


class Serial(Peer):
    """Spawned, claimed, driven and completed here, one after the other."""

    def operation(self, number):
        task = self.absurd.spawn("series", {"steps": self.told.steps})
        self.absurd.work_batch(batch_size=1)
        assert self.absurd.fetch_task_result(task["task_id"]).result == self.told.steps


class Queue(Peer):
    def open(self):
        super().open()
        self.workers = line.Workers(self.told, self.told.workers)
        self.workers.start()
        self.before = 0

    def operation(self, number):
        for _ in range(self.told.jobs):
            self.absurd.spawn("series", {"steps": self.told.steps})
        self.before += self.told.jobs
        line.until(lambda: self.count_done() >= self.before, 0.02)

    def close(self):
        self.workers.stop()


class Pickup(Queue):
    def operation(self, number):
        task = self.absurd.spawn("series", {"steps": 1})["task_id"]
        sql = "SELECT count(*) FROM absurd.t_jobs WHERE task_id = %s AND state = 'completed'"
        line.until(lambda: self.one(sql, task) == 1, 0.001)


def worker(told):
    line.end_with_input()
    absurd = connect(told, lambda number: {**told.result, "status": number})
    line.say("ready")
    polling = {"poll_interval": 0.01} if told.tuned else {}
    absurd.start_worker(concurrency=told.concurrency, **polling)


class History(Peer):
    def operation(self, number):
        self.live_from = self.told.steps
        self.absurd.spawn("series", {"steps": self.told.steps + 1}, max_attempts=1000)
        threading.Thread(target=self.absurd.work_batch, daemon=True).start()
        assert self.reached.wait(300)
        assert self.one("SELECT count(*) FROM absurd.c_jobs") == self.told.steps


class Resume(Peer):
    """A new worker. The dead one's claim has run out and its run is pending: the wait for that is not the work."""

    def begin(self):
        expire(self.watch)
        for (run,) in self.watch.execute(
            "SELECT run_id FROM absurd.r_jobs WHERE state = 'running'"
        ).fetchall():
            self.watch.execute("SELECT absurd.fail_run(%s, %s, '{}', null)", (QUEUE, run))

    def operation(self, number):
        self.live_from = self.told.steps
        began = time.perf_counter()
        threading.Thread(target=self.absurd.start_worker, daemon=True).start()
        assert self.reached.wait(300)
        return {"again": self.again, "took_s": time.perf_counter() - began}


class Sweep(Peer):
    """Claims that have run out are found when somebody claims as many."""

    def open(self):
        super().open()
        for _ in range(self.told.jobs):
            self.absurd.spawn("series", {"steps": 1}, max_attempts=1000)

    def begin(self):
        held = "SELECT count(*) FROM absurd.r_jobs WHERE state = 'running'"
        line.until(
            lambda: self.absurd.claim_tasks(self.told.jobs) and self.one(held) == self.told.jobs, 0.001
        )
        expire(self.watch)
        self.failed = self.one("SELECT count(*) FROM absurd.r_jobs WHERE state = 'failed'")

    def operation(self, number):
        self.absurd.claim_tasks(batch_size=self.told.jobs, worker_id="another")

    def end(self):
        failed = self.one("SELECT count(*) FROM absurd.r_jobs WHERE state = 'failed'") - self.failed
        assert failed == self.told.jobs, failed
        if not self.one("SELECT count(*) FROM absurd.r_jobs WHERE state = 'pending'"):
            expire(self.watch)  # some or all were taken at once: they run out too


def expire(db):
    db.execute(
        "UPDATE absurd.r_jobs SET claim_expires_at = now() - interval '1 hour' WHERE state = 'running'"
    )


WORKS = {
    "serial": Serial,
    "queue": Queue,
    "pickup": Pickup,
    "worker": worker,
    "history": History,
    "resume": Resume,
    "sweep": Sweep,
}

line.main(WORKS)
