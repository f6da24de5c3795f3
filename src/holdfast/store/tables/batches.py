"""Many appends in one go.

Most appends do two things: they move a head, and they write events. A batch of such appends needs no savepoints,
because a refused one has touched nothing: its condition did not hold, so its head did not move, so its events are not
written. On Postgres the batch is one statement and one round trip; on SQLite it is two prepared statements run down
the list.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.append import Append
from holdfast.model.limits import PAYLOAD_INLINE_BYTES
from holdfast.store.executor import Row, Transaction, Value
from holdfast.store.tables.heads import move_values


def is_plain(append: Append) -> bool:
    """Whether a batch can do it: events that fit their rows, and at most a move."""
    return not append.extras and all(
        len(event.body or b"") <= PAYLOAD_INLINE_BYTES for event in append.events
    )


def conditions(append: Append) -> dict[str, Value]:
    """What the writer believes, and the head it leads to."""
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


async def append_plain_in(tx: Transaction, appends: Sequence[Append]) -> Sequence[Row]:
    """The (job, queue, status, over) of each append that took. One that ends a job is left to the single append."""
    staying = [conditions(append) for append in appends if append.move is None]
    moving = [
        conditions(append) | move_values(append.move)
        for append in appends
        if append.move is not None and not append.move.over
    ]
    stayed = await tx.rows_each("append_head", staying) if staying else ()
    moved = await tx.rows_each("append_move", moving) if moving else ()
    took: list[Row] = [(row[0], None, None, 0) for row in stayed]
    status = {append.job_id: append.move.status for append in appends if append.move is not None}
    took += [(row[0], row[2], status[row[0]], 0) for row in moved]
    taken = {row[0] for row in took}
    events: list[dict[str, Value]] = [
        {
            "job_id": append.job_id,
            "seq": event.seq,
            "type": event.type,
            "version": event.version,
            "fence": event.fence,
            "at": event.at,
            "body": event.body,
            "body_digest": event.body_digest,
            "hash": event.hash,
        }
        for append in appends
        if append.job_id in taken
        for event in append.events
    ]
    await tx.rows_each("insert_event", events)
    return took


def arrays(appends: Sequence[Append]) -> dict[str, Value]:
    """The batch, column by column."""
    moves = [append.move for append in appends]
    events = [(append.job_id, event) for append in appends for event in append.events]
    return {
        "job_ids": [append.job_id for append in appends],
        "fences": [append.fence for append in appends],
        "lease_tokens": [append.lease_token for append in appends],
        "seen_seqs": [append.seen.seq for append in appends],
        "seen_hashes": [append.seen.hash for append in appends],
        "head_seqs": [append.head.seq for append in appends],
        "head_hashes": [append.head.hash for append in appends],
        "mail_seens": [append.mail_seen for append in appends],
        "progresses": [int(append.progress) for append in appends],
        "statuses": [None if move is None else str(move.status) for move in moves],
        "wait_reasons": [None if move is None or move.reason is None else str(move.reason) for move in moves],
        "wake_ats": [None if move is None else move.wake_at for move in moves],
        "ready_ats": [None if move is None else move.ready_at or None for move in moves],
        "faileds": [0 if move is None else int(move.failed) for move in moves],
        "overs": [0 if move is None else int(move.over) for move in moves],
        "event_jobs": [job_id for job_id, _ in events],
        "seqs": [event.seq for _, event in events],
        "types": [event.type for _, event in events],
        "versions": [event.version for _, event in events],
        "event_fences": [event.fence for _, event in events],
        "ats": [event.at for _, event in events],
        "bodies": [event.body for _, event in events],
        "body_digests": [event.body_digest for _, event in events],
        "hashes": [event.hash for _, event in events],
    }
