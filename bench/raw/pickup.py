"""A job that finds an idle worker, with nothing around it: two processes, three commits, and two hints.

Submitted by this process; claimed by the other one, its step recorded together with its end; its result read here. On
SQLite a hint is a datagram to a socket, on Postgres a NOTIFY that the commit carries: what the store itself would use.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from bench.material import AT, BODY, FENCE, HASH
from bench.raw import postgres, sqlite
from holdfast.model.ids import RandomIds
from holdfast.store.sqlite.connection import connect, make_durable

FACTS = (("job_claimed",), ("step_finished", "job_completed"))


class SqlitePickup(sqlite.RawSqlite):
    name = "raw, submit, claim, complete"
    schema = sqlite.EVENTS

    async def open(self) -> None:
        await super().open()
        self.ids = RandomIds()
        self.there = f"{self.path}-there"
        self.here = open_socket(f"{self.path}-here")
        self.worker = await _start_worker("sqlite", str(self.path))

    async def operation(self, number: int) -> None:
        job_id = self.ids.new("job")
        execute = self.db.execute
        execute("BEGIN IMMEDIATE")
        execute("INSERT INTO heads VALUES (?, 1, ?)", (job_id, HASH))
        execute(sqlite.INSERT_EVENT, _make_row(job_id, 1, "job_created"))
        execute("COMMIT")
        self.here.sendto(job_id.encode(), self.there)
        told = await asyncio.get_running_loop().sock_recv(self.here, 100)
        assert told.decode() == job_id
        assert len(list(execute("SELECT body FROM events WHERE job_id = ?", (job_id,)))) == 4

    async def close(self) -> None:
        await _end_worker(self.worker)
        self.here.close()
        await super().close()


class PostgresPickup(postgres.RawPostgres):
    name = "raw, submit, claim, complete"
    schema = postgres.EVENTS

    async def prepare(self) -> None:
        self.ids = RandomIds()
        self.done: asyncio.Queue[str] = asyncio.Queue()
        await self.db.add_listener("done", lambda *told: self.done.put_nowait(told[-1]))
        self.worker = await _start_worker("postgres", self.url)

    async def operation(self, number: int) -> None:
        job_id = self.ids.new("job")
        async with self.db.transaction():
            await self.db.execute("INSERT INTO heads VALUES ($1, 1, $2)", job_id, HASH)
            await self.db.execute(postgres.INSERT_EVENT, *_make_row(job_id, 1, "job_created"))
            await self.db.execute("SELECT pg_notify('queued', $1)", job_id)
        assert await self.done.get() == job_id
        assert len(await self.db.fetch("SELECT body FROM events WHERE job_id = $1", job_id)) == 4

    async def close(self) -> None:
        await _end_worker(self.worker)
        await super().close()


PICKUP: dict[str, type[SqlitePickup | PostgresPickup]] = {"sqlite": SqlitePickup, "postgres": PostgresPickup}


# ── the other process ─────────────────────────────────────────────────────────────────────────────


async def _start_worker(store: str, where: str) -> asyncio.subprocess.Process:
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.raw.pickup", store, where), stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"ready\n"
    return worker


async def _end_worker(worker: asyncio.subprocess.Process) -> None:
    worker.kill()
    await worker.wait()


def open_socket(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(path)
    made.setblocking(False)
    return made


def _work_on_sqlite(path: str) -> None:
    db: apsw.Connection = connect(Path(path))
    make_durable(db)
    there = open_socket(f"{path}-there")
    there.setblocking(True)
    _report_ready()
    while True:
        job_id, seq = there.recv(100).decode(), 1
        for facts in FACTS:
            db.execute("BEGIN IMMEDIATE")
            for kind in facts:
                seq += 1
                db.execute(sqlite.INSERT_EVENT, _make_row(job_id, seq, kind))
            db.execute(sqlite.UPDATE_HEAD, (seq, HASH, job_id))
            db.execute("COMMIT")
        there.sendto(job_id.encode(), f"{path}-here")


async def _work_on_postgres(url: str) -> None:
    db: Any = await asyncpg.connect(url, server_settings={"synchronous_commit": "on"})
    queued: asyncio.Queue[str] = asyncio.Queue()
    await db.add_listener("queued", lambda *told: queued.put_nowait(told[-1]))
    _report_ready()
    while True:
        job_id, seq = await queued.get(), 1
        for nth, facts in enumerate(FACTS):
            async with db.transaction():
                for kind in facts:
                    seq += 1
                    await db.execute(postgres.INSERT_EVENT, *_make_row(job_id, seq, kind))
                await db.execute(postgres.UPDATE_HEAD, seq, HASH, job_id)
                if nth:
                    await db.execute("SELECT pg_notify('done', $1)", job_id)


def _report_ready() -> None:
    os.write(1, b"ready\n")


def _make_row(job_id: str, seq: int, kind: str) -> tuple[Any, ...]:
    return (job_id, seq, kind, 1, FENCE, AT, BODY, HASH, HASH)


if __name__ == "__main__":
    store, where = sys.argv[1:]
    if store == "sqlite":
        _work_on_sqlite(where)
    else:
        asyncio.run(_work_on_postgres(where))
