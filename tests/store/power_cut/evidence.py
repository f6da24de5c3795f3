"""What a database file holds, seen without the store: all of it, and whether it fits together.

A light connection and plain questions, because thousands of files are looked at. Nothing here shares code with what is
being tested, except the rule of the hash chain, which is the model's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import apsw
import msgspec

from holdfast.model.hash_chain import EMPTY, Head, SealedEvent, find_break

Fact: TypeAlias = tuple[str, tuple[str | int | bytes, ...]]
"""A question with its values. Once it was promised the answer has a row for ever: facts only accumulate."""

LAST_TABLE: Final = "attachments"
"""Before the migrations have made it there is no store, and nothing that could be half done."""


class Sight(msgspec.Struct, frozen=True):
    """`picture` stands for every row of every table; `damage` is what SQLite itself says about the file."""

    picture: str
    damage: tuple[str, ...]
    half_done: tuple[str, ...]
    facts: frozenset[Fact]


class Eye:
    """Looks at files, and knows what it has seen before: many cuts lead to the same database, byte for byte."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._facts = frozenset(facts)
        self._seen: dict[bytes, Sight] = {}

    def look(self, path: Path) -> Sight:
        """What is there once SQLite has recovered it."""
        try:
            return self._look(path)
        except apsw.Error as error:
            return Sight(picture="", damage=(repr(error),), half_done=(), facts=frozenset())

    def _look(self, path: Path) -> Sight:
        connection = apsw.Connection(str(path))
        try:
            # Recover what is to be recovered, and leave the log where it lies.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.execute("PRAGMA synchronous = OFF")
            content = hashlib.sha256(connection.serialize("main")).digest()
            if content not in self._seen:
                self._seen[content] = _sight(connection, self._facts)
        finally:
            connection.close()
        return self._seen[content]


def _sight(connection: apsw.Connection, facts: frozenset[Fact]) -> Sight:
    said = tuple(str(row[0]) for row in connection.execute("PRAGMA integrity_check"))
    schema = _rows(connection, "SELECT type, name, sql FROM sqlite_master")
    tables = {name for kind, name, _ in schema if kind == "table"}
    rows = [(name, _rows(connection, f'SELECT * FROM "{name}"')) for name in sorted(tables)]
    whole = LAST_TABLE in tables
    return Sight(
        picture=hashlib.sha256(repr((schema, rows)).encode()).hexdigest(),
        damage=() if said == ("ok",) else said,
        half_done=tuple(_half_done(connection)) if whole else (),
        facts=frozenset(fact for fact in facts if whole and _rows(connection, fact[0], *fact[1])),
    )


# ── whether it fits together ──────────────────────────────────────────────────────────────────────


def _half_done(connection: apsw.Connection) -> list[str]:
    """Everything that only part of a transaction could have left behind."""
    said = [line for row in _rows(connection, _HEADS) for line in _journal(connection, *row)]
    for words, question in _STRAYS.items():
        said += [f"{row[0]}: {words}" for row in _rows(connection, question)]
    for digest, body in _rows(connection, "SELECT digest, body FROM blobs"):
        if hashlib.sha256(body).digest() != digest:
            said.append(f"blob {digest.hex()}: not what its name promises")
    return said


def _journal(connection: apsw.Connection, job_id: str, seq: int, hash_: bytes, letters: int) -> Iterator[str]:
    events = [SealedEvent(*row) for row in _rows(connection, _EVENTS, job_id)]
    last = Head(events[-1].seq, events[-1].hash) if events else EMPTY
    if last != Head(seq, hash_):
        yield f"{job_id}: the head is at {seq}, the journal at {last.seq}"
    if any(event.body is None for event in events):
        yield f"{job_id}: a body is missing"
    broken = find_break(job_id, events)
    if broken is not None:
        yield f"{job_id}: the chain breaks at {broken}"
    counted = [row[0] for row in _rows(connection, _LETTERS, job_id)]
    if counted != list(range(1, letters + 1)):
        yield f"{job_id}: the head counts {letters} letters, there are {counted}"


def _rows(connection: apsw.Connection, question: str, *values: str | int | bytes) -> list[tuple[Any, ...]]:
    return connection.execute(question, values).fetchall()


_HEADS = "SELECT job_id, head_seq, head_hash, mail_seq FROM job_heads"
_EVENTS = """
SELECT e.seq, e.type, e.version, e.fence, e.at, coalesce(e.body, b.body), e.body_digest, e.hash
FROM events e LEFT JOIN blobs b ON b.digest = e.body_digest
WHERE e.job_id = ? ORDER BY e.seq
"""
_LETTERS = "SELECT mail_seq FROM mail WHERE job_id = ? ORDER BY mail_seq"

_STRAYS: dict[str, str] = {
    "a job without a head": """
        SELECT job_id FROM jobs WHERE job_id NOT IN (SELECT job_id FROM job_heads)""",
    "an event without a job": """
        SELECT job_id FROM events WHERE job_id NOT IN (SELECT job_id FROM jobs)""",
    # In the scenario every turn is stamped, adds one node and uses up one input.
    "revision and turns differ": """
        SELECT session_id FROM sessions s
        WHERE revision <> (SELECT count(*) FROM turns t WHERE t.session_id = s.session_id)""",
    "revision and nodes differ": """
        SELECT session_id FROM sessions s
        WHERE revision <> (SELECT count(*) FROM session_nodes n WHERE n.session_id = s.session_id)""",
    "a turn whose input is still open": """
        SELECT turn_id FROM turns
        WHERE turn_id NOT IN (SELECT settled_by FROM inbox_batches WHERE state = 'completed')""",
    "an input settled by a turn that is not there": """
        SELECT batch_id FROM inbox_batches
        WHERE state = 'completed' AND settled_by NOT IN (SELECT turn_id FROM turns)""",
    "an open input without items, or a settled one with some": """
        SELECT batch_id FROM inbox_batches b
        WHERE (state = 'queued') <> EXISTS (SELECT 1 FROM inbox_items i WHERE i.batch_id = b.batch_id)""",
    "a job's turn without its event": """
        SELECT turn_id FROM turns t WHERE job_id IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM events e WHERE e.job_id = t.job_id AND e.type = 'turn_committed')""",
    "a turn's event without the turn": """
        SELECT job_id FROM events e WHERE type = 'turn_committed' AND NOT EXISTS
        (SELECT 1 FROM turns t WHERE t.job_id = e.job_id)""",
    "a ledger row without its event": """
        SELECT step_key FROM tool_calls c WHERE NOT EXISTS
        (SELECT 1 FROM events e WHERE e.job_id = c.job_id AND e.seq = coalesce(c.result_seq, c.intent_seq))""",
}
