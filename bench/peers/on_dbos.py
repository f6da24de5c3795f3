"""DBOS, on SQLite or Postgres. As shipped: rollback journal, the queue polled each second. Tuned: WAL and 10 ms."""

# mypy: ignore-errors

from __future__ import annotations

import os
import sqlite3
import threading
import time

import line
import psycopg
import sqlalchemy as sa
from dbos import DBOS, DBOSClient
from sqlalchemy import event

NAME = "bench"
QUEUE = "jobs"
VERSION = "1"


def engine(told):
    """None for what DBOS makes itself; with WAL, which it cannot be told, an engine that is its own otherwise."""
    if told.store != "sqlite" or not told.tuned:
        return None
    made = sa.create_engine(told.address, pool_size=20)

    @event.listens_for(made, "connect")
    def prepare(connection, _record):
        connection.isolation_level = "IMMEDIATE"
        for pragma in ("busy_timeout=30000", "foreign_keys=ON", "journal_mode=WAL", "synchronous=FULL"):
            connection.execute(f"PRAGMA {pragma}")

    return made


def configure(told, executor="local"):
    made = engine(told)
    DBOS(
        config={
            "name": NAME,
            "system_database_url": told.address,
            "log_level": "ERROR",
            "application_version": VERSION,
            "executor_id": executor,
            **({"system_database_engine": made} if made is not None else {}),
        }
    )


def client_of(told):
    made = engine(told)
    where = {"system_database_url": told.address} if made is None else {"system_database_engine": made}
    return DBOSClient(**where, application_name=NAME)


class Reader:
    """A connection of our own, to see what is durable."""

    def __init__(self, told):
        if told.store == "sqlite":
            path = told.address.removeprefix("sqlite:///")
            self.db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self.schema = ""
        else:
            self.db = psycopg.connect(told.address, autocommit=True)
            self.schema = "dbos."

    def one(self, sql, *values):
        sql = sql.replace("{}", self.schema)
        if self.schema:
            sql = sql.replace("?", "%s")
        return self.db.execute(sql, values).fetchone()[0]

    def run(self, sql, *values):
        sql = sql.replace("{}", self.schema)
        self.db.execute(sql.replace("?", "%s") if self.schema else sql, values)

    def count_done(self):
        return self.one("SELECT count(*) FROM {}workflow_status WHERE status = 'SUCCESS'")

    def counts(self):
        return {"jobs": self.count_done(), "steps": self.one("SELECT count(*) FROM {}operation_outputs")}


RESULT: dict = {}
LIVE_FROM = 0
REACHED = threading.Event()
AGAIN = 0


@DBOS.step()
def fetch(number):
    global AGAIN
    if LIVE_FROM:
        if number < LIVE_FROM:
            AGAIN += 1
        else:
            REACHED.set()
            threading.Event().wait()  # the process is killed here
    return {**RESULT, "status": number}


@DBOS.workflow()
def steps_in_series(steps):
    for number in range(steps):
        assert fetch(number)["status"] == number
    return steps


def set_result(told):
    RESULT.update(told.result)


class Serial(line.Work):
    def open(self):
        set_result(self.told)
        configure(self.told)
        DBOS.launch()
        self.reader = Reader(self.told)

    def operation(self, number):
        assert steps_in_series(self.told.steps) == self.told.steps

    def count(self):
        return self.reader.counts()


class Queue(line.Work):
    """A client and worker processes of their own."""

    def open(self):
        self.workers = line.Workers(self.told, self.told.workers)
        self.workers.start()
        self.client = client_of(self.told)
        self.reader = Reader(self.told)
        self.before = 0

    def enqueue(self, steps):
        options = {"queue_name": QUEUE, "workflow_name": steps_in_series.__qualname__, "app_version": VERSION}
        return self.client.enqueue(options, steps).workflow_id

    def operation(self, number):
        for _ in range(self.told.jobs):
            self.enqueue(self.told.steps)
        self.before += self.told.jobs
        line.until(lambda: self.reader.count_done() >= self.before, 0.02)

    def count(self):
        return self.reader.counts()

    def close(self):
        self.workers.stop()


class Pickup(Queue):
    def operation(self, number):
        workflow = self.enqueue(1)
        sql = "SELECT count(*) FROM {}workflow_status WHERE workflow_uuid = ? AND status = 'SUCCESS'"
        line.until(lambda: self.reader.one(sql, workflow) == 1, 0.001)


def worker(told):
    line.end_with_input()
    set_result(told)
    configure(told, f"worker-{told.nth}")
    DBOS.listen_queues([QUEUE])
    DBOS.launch()
    polling = {"polling_interval_sec": 0.01} if told.tuned else {}
    DBOS.register_queue(QUEUE, worker_concurrency=told.concurrency, **polling)
    line.say("ready")
    threading.Event().wait()


class History(line.Work):
    """A workflow at the step after its last recorded one. The harness kills us there."""

    def open(self):
        set_result(self.told)
        configure(self.told)

    def operation(self, number):
        global LIVE_FROM
        LIVE_FROM = self.told.steps
        DBOS.launch()
        started = DBOS.start_workflow(steps_in_series, self.told.steps + 1)
        assert REACHED.wait(300)
        sql = "SELECT count(*) FROM {}operation_outputs WHERE workflow_uuid = ?"
        assert Reader(self.told).one(sql, started.workflow_id) == self.told.steps


class Resume(line.Work):
    """A new process recovers what its dead namesake was doing."""

    def open(self):
        global LIVE_FROM
        set_result(self.told)
        configure(self.told)
        LIVE_FROM = self.told.steps

    def operation(self, number):
        began = time.perf_counter()
        DBOS.launch()
        assert REACHED.wait(300)
        return {"again": AGAIN, "took_s": time.perf_counter() - began}


class Sweep(line.Work):
    """Workflows of an executor that died, put back into their queue. Nobody listens to it."""

    def open(self):
        configure(self.told)
        DBOS.listen_queues(["another"])
        DBOS.launch()
        DBOS.register_queue(QUEUE, worker_concurrency=1)
        self.reader = Reader(self.told)
        client = client_of(self.told)
        options = {"queue_name": QUEUE, "workflow_name": steps_in_series.__qualname__, "app_version": VERSION}
        for _ in range(self.told.jobs):
            client.enqueue(options, 1)

    def begin(self):
        self.reader.run("UPDATE {}workflow_status SET status = 'PENDING', executor_id = 'died'")

    def operation(self, number):
        recovered = DBOS._recover_pending_workflows(["died"])  # what its admin server calls
        assert len(recovered) == self.told.jobs

    def end(self):
        put_back = self.reader.one("SELECT count(*) FROM {}workflow_status WHERE status = 'ENQUEUED'")
        assert put_back == self.told.jobs, put_back


class Writers(line.Storm):
    """Each write enqueues a workflow, as a client does."""

    def open(self):
        if os.fork() == 0:  # the tables are made by a process that ends: nothing of it is forked
            configure(self.told)
            DBOS.launch()
            DBOS.register_queue(QUEUE, worker_concurrency=1)
            os._exit(0)
        _, status = os.wait()
        assert status == 0
        self.path = self.told.address.removeprefix("sqlite:///")

    def writer(self, nth):
        client = client_of(self.told)
        options = {"queue_name": QUEUE, "workflow_name": steps_in_series.__qualname__, "app_version": VERSION}
        return lambda _number: client.enqueue(options, 1)

    def count(self):
        with sqlite3.connect(self.path) as db:
            return {"jobs": db.execute("SELECT count(*) FROM workflow_status").fetchone()[0]}


WORKS = {
    "serial": Serial,
    "queue": Queue,
    "pickup": Pickup,
    "worker": worker,
    "history": History,
    "resume": Resume,
    "sweep": Sweep,
    "writers": Writers,
}

line.main(WORKS)
