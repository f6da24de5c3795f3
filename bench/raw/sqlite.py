"""Raw SQLite: the settings of a Holdfast store, bare tables, bare prepared statements."""

from __future__ import annotations

from typing import Any, ClassVar

import apsw
import msgspec

from bench.contest import Contestant
from bench.material import AT, BODY, FENCE, GROUP, HASH, JOB_IDS, STEPS, TEXTS
from bench.places import File
from holdfast.store.sqlite import filesystem
from holdfast.store.sqlite.connection import check_file_is_ours, connect, make_durable

EVENTS = """
CREATE TABLE events (
    job_id TEXT NOT NULL, seq INTEGER NOT NULL, type TEXT NOT NULL, version INTEGER NOT NULL, fence INTEGER NOT NULL,
    at INTEGER NOT NULL, body BLOB, body_digest BLOB NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (job_id, seq)
) STRICT;
CREATE TABLE heads (job_id TEXT PRIMARY KEY, head_seq INTEGER NOT NULL, head_hash BLOB NOT NULL) STRICT, WITHOUT ROWID;
"""
INSERT_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_READ_EVENTS = "SELECT * FROM events WHERE job_id = ? ORDER BY seq"
UPDATE_HEAD = "UPDATE heads SET head_seq = ?, head_hash = ? WHERE job_id = ?"

_SESSIONS = """
CREATE TABLE sessions (session_id TEXT PRIMARY KEY, head INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;
CREATE TABLE messages (
    session_id TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
) STRICT;
"""


class RawSqlite(Contestant):
    schema: ClassVar[str]

    def __init__(self, place: File) -> None:
        super().__init__(place)
        self.path = place.path
        self.seq = 0

    async def open(self) -> None:
        filesystem.make_private(self.path)
        self.db: apsw.Connection = connect(self.path)
        check_file_is_ours(self.db, self.path)
        make_durable(self.db)
        self.db.execute(self.schema)

    async def close(self) -> None:
        self.db.close()


class InsertOne(RawSqlite):
    name = "raw commit of one row"
    schema = EVENTS

    async def operation(self, number: int) -> None:
        self.seq += 1
        execute = self.db.execute
        execute("BEGIN IMMEDIATE")
        execute(INSERT_EVENT, (JOB_IDS[0], self.seq, "step_finished", 1, FENCE, AT, BODY, HASH, HASH))
        execute("COMMIT")


class InsertSteps(InsertOne):
    name = f"raw, {STEPS} commits of one row"
    rows_per_operation = STEPS

    async def operation(self, number: int) -> None:
        for _ in range(STEPS):
            await super().operation(number)


class InsertGroup(RawSqlite):
    name = "raw group commit, INSERT only"
    schema = EVENTS
    rows_per_operation = GROUP

    async def operation(self, number: int) -> None:
        self.seq += 1
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany(INSERT_EVENT, _build_rows(self.seq))
        self.db.execute("COMMIT")


class WriteGroup(RawSqlite):
    """The two writes that an append is made of, without what makes it safe: no fencing, no hashing, no outcome each."""

    name = "raw group commit"
    schema = EVENTS
    rows_per_operation = GROUP

    async def open(self) -> None:
        await super().open()
        self.db.executemany("INSERT INTO heads VALUES (?, 0, ?)", [(job_id, HASH) for job_id in JOB_IDS])

    async def operation(self, number: int) -> None:
        self.seq += 1
        seq = self.seq
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany(UPDATE_HEAD, [(seq, HASH, job_id) for job_id in JOB_IDS])
        self.db.executemany(INSERT_EVENT, _build_rows(seq))
        self.db.execute("COMMIT")


def _build_rows(seq: int) -> list[tuple[str, int, str, int, int, int, bytes, bytes, bytes]]:
    return [(job_id, seq, "step_finished", 1, FENCE, AT, BODY, HASH, HASH) for job_id in JOB_IDS]


class ReadHistory(RawSqlite):
    """All rows of a journal, and the JSON in them: the least that a resume must do."""

    name = "raw read of the journal"
    schema = EVENTS

    def __init__(self, place: File, steps: int) -> None:
        super().__init__(place)
        self.steps = steps

    async def open(self) -> None:
        await super().open()
        self.db.executemany(
            INSERT_EVENT,
            [
                (JOB_IDS[0], seq, "step_finished", 1, FENCE, AT, BODY, HASH, HASH)
                for seq in range(1, self.steps + 1)
            ],
        )

    async def operation(self, number: int) -> None:
        rows: list[Any] = self.db.execute(_READ_EVENTS, (JOB_IDS[0],)).fetchall()
        assert len([msgspec.json.decode(row[6]) for row in rows]) == self.steps


class WriteTurn(RawSqlite):
    """A message and the session's head, one transaction."""

    name = "raw turn"
    schema = _SESSIONS

    def __init__(self, place: File) -> None:
        super().__init__(place)
        self.session = 0

    async def begin(self) -> None:
        self.session += 1
        self.db.execute("INSERT INTO sessions VALUES (?, 0, 0)", (f"session-{self.session}",))

    async def operation(self, number: int) -> None:
        session_id = f"session-{self.session}"
        execute = self.db.execute
        execute("BEGIN IMMEDIATE")
        execute("INSERT INTO messages VALUES (?, ?, ?, ?)", (session_id, number, AT, TEXTS[number]))
        execute("UPDATE sessions SET head = ?, updated_at = ? WHERE session_id = ?", (number, AT, session_id))
        execute("COMMIT")
