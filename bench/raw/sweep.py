"""Expired leases put back with one statement and an event for each: no fences, no hashes, nobody's attempts counted."""

from __future__ import annotations

from typing import Any

from bench.material import AT, BODY, FENCE, HASH
from bench.raw import postgres, sqlite

JOBS = 1000
_HELD = (
    "CREATE TABLE held (job_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, status TEXT NOT NULL, until INTEGER)"
)
_EVENTS = "INSERT INTO events SELECT job_id, seq, 'job_requeued', 1, {fence}, {at}, {body}, {hash}, {hash} FROM held"


def _list_jobs() -> list[tuple[str, int]]:
    return [(f"job-{number:05}", 1) for number in range(JOBS)]


class SqliteSweep(sqlite.RawSqlite):
    name = "raw, one update and one insert"
    schema = sqlite.EVENTS + _HELD

    async def open(self) -> None:
        await super().open()
        self.db.executemany("INSERT INTO held VALUES (?, ?, 'running', 0)", _list_jobs())

    async def begin(self) -> None:
        self.db.execute("UPDATE held SET status = 'running', until = 0")

    async def operation(self, number: int) -> None:
        execute = self.db.execute
        execute("BEGIN IMMEDIATE")
        execute(
            "UPDATE held SET status = 'queued', seq = seq + 1 WHERE status = 'running' AND until < ?", (AT,)
        )
        assert self.db.changes() == JOBS
        execute(_EVENTS.format(fence="?", at="?", body="?", hash="?"), (FENCE, AT, BODY, HASH, HASH))
        execute("COMMIT")


class PostgresSweep(postgres.RawPostgres):
    name = "raw, one update and one insert"
    schema = postgres.EVENTS + _HELD.replace("INTEGER", "BIGINT")

    async def prepare(self) -> None:
        await self.db.executemany("INSERT INTO held VALUES ($1, $2, 'running', 0)", _list_jobs())
        self.update: Any = await self.db.prepare(
            "UPDATE held SET status = 'queued', seq = seq + 1 WHERE status = 'running' AND until < $1"
        )
        self.insert: Any = await self.db.prepare(
            _EVENTS.format(fence="$1::bigint", at="$2::bigint", body="$3::bytea", hash="$4::bytea")
        )

    async def begin(self) -> None:
        await self.db.execute("UPDATE held SET status = 'running', until = 0")

    async def operation(self, number: int) -> None:
        async with self.db.transaction():
            await self.update.fetch(AT)
            assert self.update.get_statusmsg() == f"UPDATE {JOBS}"
            await self.insert.fetch(FENCE, AT, BODY, HASH)


SWEEP: dict[str, type[SqliteSweep | PostgresSweep]] = {"sqlite": SqliteSweep, "postgres": PostgresSweep}
