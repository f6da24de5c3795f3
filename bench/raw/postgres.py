"""Raw Postgres: one connection, bare tables, prepared statements, `synchronous_commit=on`.

There are several ways to write many rows in one transaction, and which is the fastest depends on where the server is.
All of them run; the fastest of the run is the limit that Holdfast is measured against.
"""

from __future__ import annotations

from typing import Any, ClassVar

import asyncpg
import msgspec

from bench.contest import Contestant
from bench.material import AT, BODY, FENCE, GROUP, HASH, JOB_IDS, STEPS, TEXTS
from bench.places import Database

EVENTS = """
CREATE TABLE events (
    job_id TEXT COLLATE "C" NOT NULL, seq BIGINT NOT NULL, type TEXT NOT NULL, version BIGINT NOT NULL,
    fence BIGINT NOT NULL, at BIGINT NOT NULL, body BYTEA, body_digest BYTEA NOT NULL, hash BYTEA NOT NULL,
    PRIMARY KEY (job_id, seq)
);
CREATE TABLE heads (job_id TEXT COLLATE "C" PRIMARY KEY, head_seq BIGINT NOT NULL, head_hash BYTEA NOT NULL)
WITH (fillfactor = 50);
"""
INSERT_EVENT = "INSERT INTO events VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
UPDATE_HEAD = "UPDATE heads SET head_seq = $1, head_hash = $2 WHERE job_id = $3"
INSERT_EVENTS = """
INSERT INTO events SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
                                        $7::bytea[], $8::bytea[], $9::bytea[])
"""
WRITE_BOTH = """
WITH moved AS (
    UPDATE heads h SET head_seq = i.head_seq, head_hash = i.head_hash
    FROM unnest($1::text[], $2::bigint[], $9::bytea[]) AS i (job_id, head_seq, head_hash) WHERE h.job_id = i.job_id
)
INSERT INTO events SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
                                        $7::bytea[], $8::bytea[], $9::bytea[])
"""

_SESSIONS = """
CREATE TABLE sessions (session_id TEXT COLLATE "C" PRIMARY KEY, head BIGINT NOT NULL, updated_at BIGINT NOT NULL);
CREATE TABLE messages (
    session_id TEXT COLLATE "C" NOT NULL, seq BIGINT NOT NULL, at BIGINT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
);
"""
_INSERT_MESSAGE = "INSERT INTO messages VALUES ($1, $2, $3, $4)"
_UPDATE_SESSION = "UPDATE sessions SET head = $1, updated_at = $2 WHERE session_id = $3"
_TURN_AT_ONCE = """
WITH moved AS (UPDATE sessions SET head = $2, updated_at = $3 WHERE session_id = $1)
INSERT INTO messages VALUES ($1, $2, $3, $4)
"""

Prepared = Any  # asyncpg's class is a generic that its stubs and its runtime spell differently


class RawPostgres(Contestant):
    schema: ClassVar[str]

    def __init__(self, place: Database) -> None:
        super().__init__(place)
        self.url = place.url
        self.seq = 0

    async def open(self) -> None:
        self.db: Any = await asyncpg.connect(self.url, server_settings={"synchronous_commit": "on"})
        await self.db.execute(self.schema)
        await self.prepare()

    async def prepare(self) -> None:
        """The statements are known to the server."""

    async def close(self) -> None:
        await self.db.close()


class InsertOne(RawPostgres):
    name = "raw commit of one row"
    schema = EVENTS

    async def prepare(self) -> None:
        self.insert: Prepared = await self.db.prepare(INSERT_EVENT)

    async def operation(self, number: int) -> None:
        self.seq += 1
        await self.insert.fetch(JOB_IDS[0], self.seq, "step_finished", 1, FENCE, AT, BODY, HASH, HASH)


class InsertSteps(InsertOne):
    name = f"raw, {STEPS} commits of one row"
    rows_per_operation = STEPS

    async def operation(self, number: int) -> None:
        for _ in range(STEPS):
            await super().operation(number)


class _Group(RawPostgres):
    schema = EVENTS
    rows_per_operation = GROUP

    async def open(self) -> None:
        await super().open()
        await self.db.executemany(
            "INSERT INTO heads VALUES ($1, 0, $2)", [(job_id, HASH) for job_id in JOB_IDS]
        )


class InsertGroup(_Group):
    name = "raw group commit, INSERT only"

    async def prepare(self) -> None:
        self.insert: Prepared = await self.db.prepare(INSERT_EVENTS)

    async def operation(self, number: int) -> None:
        self.seq += 1
        await self.insert.fetch(*_build_columns(self.seq))


class WriteGroupByRows(_Group):
    name = "raw group commit, executemany"

    async def prepare(self) -> None:
        self.update: Prepared = await self.db.prepare(UPDATE_HEAD)
        self.insert: Prepared = await self.db.prepare(INSERT_EVENT)

    async def operation(self, number: int) -> None:
        self.seq += 1
        async with self.db.transaction():
            await self.update.executemany([(self.seq, HASH, job_id) for job_id in JOB_IDS])
            await self.insert.executemany(list(zip(*_build_columns(self.seq), strict=True)))


class WriteGroupByArrays(_Group):
    name = "raw group commit, unnest"

    async def prepare(self) -> None:
        self.write: Prepared = await self.db.prepare(WRITE_BOTH)

    async def operation(self, number: int) -> None:
        self.seq += 1
        await self.write.fetch(*_build_columns(self.seq))


def _build_columns(seq: int) -> tuple[list[Any], ...]:
    same = (seq, "step_finished", 1, FENCE, AT, BODY, HASH, HASH)
    return (list(JOB_IDS), *([value] * GROUP for value in same))


class ReadHistory(RawPostgres):
    """All rows of a journal, and the JSON in them: the least that a resume must do."""

    name = "raw read of the journal"
    schema = EVENTS

    def __init__(self, place: Database, steps: int) -> None:
        super().__init__(place)
        self.steps = steps

    async def prepare(self) -> None:
        await self.db.executemany(
            INSERT_EVENT,
            [
                (JOB_IDS[0], seq, "step_finished", 1, FENCE, AT, BODY, HASH, HASH)
                for seq in range(1, self.steps + 1)
            ],
        )
        self.read: Prepared = await self.db.prepare("SELECT * FROM events WHERE job_id = $1 ORDER BY seq")

    async def operation(self, number: int) -> None:
        rows = await self.read.fetch(JOB_IDS[0])
        assert len([msgspec.json.decode(row[6]) for row in rows]) == self.steps


class _Turns(RawPostgres):
    schema = _SESSIONS

    def __init__(self, place: Database) -> None:
        super().__init__(place)
        self.session = 0

    async def begin(self) -> None:
        self.session += 1
        await self.db.execute("INSERT INTO sessions VALUES ($1, 0, 0)", f"session-{self.session}")


class WriteTurn(_Turns):
    """A message and the session's head, one transaction: four round trips."""

    name = "raw turn"

    async def prepare(self) -> None:
        self.insert: Prepared = await self.db.prepare(_INSERT_MESSAGE)
        self.update: Prepared = await self.db.prepare(_UPDATE_SESSION)

    async def operation(self, number: int) -> None:
        session_id = f"session-{self.session}"
        async with self.db.transaction():
            await self.insert.fetch(session_id, number, AT, TEXTS[number])
            await self.update.fetch(number, AT, session_id)


class WriteTurnAtOnce(_Turns):
    name = "raw turn, one statement"

    async def prepare(self) -> None:
        self.write: Prepared = await self.db.prepare(_TURN_AT_ONCE)

    async def operation(self, number: int) -> None:
        await self.write.fetch(f"session-{self.session}", number, AT, TEXTS[number])
