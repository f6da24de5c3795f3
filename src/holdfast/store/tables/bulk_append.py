"""Bulk append: the appends of many jobs in one commit.

There are six append paths, and each pays (`bench`, two cores, disks that flush):

    journal.append_in         any append, one by one: blobs, ledger rows, turns, sessions; and the reason of a rejection
    append_plain_in           SQLite: 32 appends take 8 ms instead of 12
    SqlJournal.append_now     SQLite, without leaving the event loop: a strict step takes 1.3 raw commits, not 1.6
    append_event              Postgres, one event of one job: 2.8 ms instead of 3.0 as a batch of one
    append_events             Postgres, one event each: 32 take 7.2 ms instead of 8.0 as moves
    append_events_and_moves   Postgres, any events and moves: 32 take 8 ms instead of 40 one by one

Most appends do two things: they move a head, and they write events. A batch of such appends needs no savepoints,
because a rejected append changes nothing: its condition does not hold, so its head does not move, so its events are not
written. On Postgres the batch is one statement and one round trip. On SQLite it is two prepared statements, run for
each append, and one count: if a head did not move, the batch is rolled back and its appends run one by one, each with
its own outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from holdfast.model.append import NOTHING, Append, Move
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.limits import PAYLOAD_INLINE_BYTES
from holdfast.model.states import Status
from holdfast.store.executor import Executor, Row, Transaction, Value
from holdfast.store.tables.job_heads import build_move_values


def is_plain(append: Append) -> bool:
    """Whether a batch can write the append: it has events that fit into their rows, and at most a move."""
    if append.extras is not NOTHING and append.extras:
        return False
    return max([len(event.body or b"") for event in append.events]) <= PAYLOAD_INLINE_BYTES


def build_conditions(append: Append) -> dict[str, Value]:
    """The parameters of the conditional update: what the writer has seen, and the head that the append leads to."""
    return {
        "job_id": append.job_id,
        "fence": append.fence,
        "lease_token": append.lease_token,
        "seen_seq": append.seen.seq,
        "seen_hash": append.seen.hash,
        "head_seq": append.head.seq,
        "head_hash": append.head.hash,
        "mail_seen": append.mail_seen,
        "progress": int(append.progress),
    }


class BatchRejected(Exception):
    """An append of the batch was rejected, and a count does not tell which one: nothing of the batch is written."""


# ── row by row ────────────────────────────────────────────────────────────────────────────────────


async def append_plain_in(tx: Transaction, appends: Sequence[Append]) -> list[Row]:
    """Write the appends; returns a row for each that was written: (job,), or (job, queue, status, over) for one that
    moved its job. One that ends a job of a session is not written: the single append does it, and promotes the next
    job."""
    staying = [append for append in appends if append.move is None]
    if staying and await tx.change_each("advance_head", list(map(build_conditions, staying))) < len(staying):
        raise BatchRejected
    written: list[Row] = [(append.job_id,) for append in staying]
    if len(staying) < len(appends):
        written += await _write_moves_in(tx, appends)
    written_ids = {row[0] for row in written}
    events = [
        build_event_values(append.job_id, event)
        for append in appends
        if append.job_id in written_ids
        for event in append.events
    ]
    await tx.rows_each("insert_event", events)
    return written


async def _write_moves_in(tx: Transaction, appends: Sequence[Append]) -> list[Row]:
    """Write the moves; returns a row for each job that left `running`."""
    moves = {append.job_id: append.move for append in appends if append.move is not None}
    moved = await tx.rows_each(
        "release_head",
        [
            build_conditions(append) | build_move_values(append.move) | {"in_no_line": int(append.move.over)}
            for append in appends
            if append.move is not None
        ],
    )
    await tx.rows_each("remove_timers", [{"job_id": row[0]} for row in moved if moves[row[0]].over])
    return [(row[0], row[2], moves[row[0]].status, moves[row[0]].over) for row in moved]


def build_event_values(job_id: str, event: SealedEvent) -> dict[str, Value]:
    """The event as a row."""
    return {
        "job_id": job_id,
        "seq": event.seq,
        "type": event.type,
        "version": event.version,
        "fence": event.fence,
        "at": event.at,
        "body": event.body,
        "body_digest": event.body_digest,
        "hash": event.hash,
    }


# ── column by column ──────────────────────────────────────────────────────────────────────────────


async def append_at_once(executor: Executor, appends: Sequence[Append]) -> Sequence[Row]:
    """As `append_plain_in`, in one statement that is a transaction by itself. The usual append, one event of a job that
    stays running, has two smaller statements (figures above)."""
    if all(append.move is None and len(append.events) == 1 for append in appends):
        if len(appends) > 1:
            return await executor.run_statement("append_events", **_build_step_columns(appends))
        (append,) = appends
        values = build_event_values(append.job_id, append.events[0]) | build_conditions(append)
        return await executor.run_statement("append_event", **values)
    return await executor.run_statement("append_events_and_moves", **_build_move_columns(appends))


def _build_step_columns(appends: Sequence[Append]) -> dict[str, Value]:
    """The appends by job id, as columns. Building rows first would take as long as sending them."""
    appends = sorted(appends, key=attrgetter("job_id"))
    events = [append.events[0] for append in appends]
    hashes = [
        digest
        for append, event in zip(appends, events, strict=True)
        for digest in (append.seen.hash, event.body_digest, event.hash)
    ]
    return {
        "each_job_id": encode_texts([append.job_id for append in appends]),
        "each_fence": encode_integers([append.fence for append in appends]),
        "each_lease_token": encode_texts([append.lease_token for append in appends]),
        "each_seen_seq": encode_integers([append.seen.seq for append in appends]),
        "each_mail_seen": encode_integers([append.mail_seen for append in appends]),
        "each_progress": encode_integers([int(append.progress) for append in appends]),
        "each_type": encode_texts([event.type for event in events]),
        "each_version": encode_integers([event.version for event in events]),
        "each_at": encode_integers([event.at for event in events]),
        "each_body": [event.body for event in events],
        "hashes": b"".join(hashes),
    }


def encode_integers(values: Sequence[int | None]) -> str:
    """An array literal: the driver converts a list slowly, element by element; the server parses digits quickly."""
    return "{" + ",".join(map(str, values)).replace("None", "NULL") + "}"


def encode_texts(values: Sequence[str]) -> str:
    """An array literal of texts; characters with a meaning inside a literal are escaped."""
    escaped = _BETWEEN.join(values).replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + escaped.replace(_BETWEEN, '","') + '"}'


_BETWEEN = "\x1f"
"""No name contains this character."""


def encode_words(values: Sequence[str | None]) -> str:
    """An array literal of our own enumeration values and NULLs, which need no escaping."""
    return "{" + ",".join([value or "NULL" for value in values]) + "}"


def _build_move_columns(appends: Sequence[Append]) -> dict[str, Value]:
    """The appends and their events, as columns. The events of one append have its fence."""
    moves = [_STAYS if append.move is None else append.move for append in appends]
    events = [(nth, event) for nth, append in enumerate(appends, 1) for event in append.events]
    hashes = [digest for append in appends for digest in (append.seen.hash, append.head.hash)]
    event_hashes = [digest for _, event in events for digest in (event.body_digest, event.hash)]
    return {
        "each_job_id": encode_texts([append.job_id for append in appends]),
        "each_fence": encode_integers([append.fence for append in appends]),
        "each_lease_token": encode_texts([append.lease_token for append in appends]),
        "each_seen_seq": encode_integers([append.seen.seq for append in appends]),
        "each_head_seq": encode_integers([append.head.seq for append in appends]),
        "each_mail_seen": encode_integers([append.mail_seen for append in appends]),
        "each_progress": encode_integers([int(append.progress) for append in appends]),
        "each_status": encode_words([None if move is _STAYS else move.status for move in moves]),
        "each_wait_reason": encode_words([move.reason for move in moves]),
        "each_wake_at": encode_integers([move.wake_at for move in moves]),
        "each_ready_at": encode_integers([move.ready_at or None for move in moves]),
        "each_failed": encode_integers([int(move.failed) for move in moves]),
        "each_anew": encode_integers([int(move.anew) for move in moves]),
        "each_taken_over": encode_integers([int(move.takeover) for move in moves]),
        "each_over": encode_integers([int(move.over) for move in moves]),
        "hashes": b"".join(hashes),
        "event_whose": encode_integers([nth for nth, _ in events]),
        "event_seq": encode_integers([event.seq for _, event in events]),
        "event_type": encode_texts([event.type for _, event in events]),
        "event_version": encode_integers([event.version for _, event in events]),
        "event_at": encode_integers([event.at for _, event in events]),
        "event_body": [event.body for _, event in events],
        "event_hashes": b"".join(event_hashes),
    }


_STAYS: Final = Move(status=Status.RUNNING)
"""Stands for the move of an append that has none."""
