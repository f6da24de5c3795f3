"""Lease sweep: a short hold on every job whose lease has expired, in one transaction.

The sweep reads the heads under lock, decides in Python, and writes them back together with their events. It decides on
the row that it writes, so a holder that renews in between keeps its job, and of two concurrent sweeps one finds
nothing.

A sweep finds many jobs at once, and nearly all of them get the same ruling: their worker is gone, and they return to
their place in the queue. So an event is encoded and hashed once, an outcome is sent once for all jobs that have it, and
each job adds only its id and one hash. On Postgres that is one statement; on SQLite two for each group of equal
rulings. A ruling with more than one event, an event too large for its row, or a store that encrypts makes the sweep
write job by job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from holdfast.model.events import Event
from holdfast.model.hash_chain import SealedEvent, body_of, chain
from holdfast.model.jobs import JobHead
from holdfast.model.limits import PAYLOAD_INLINE_BYTES
from holdfast.model.states import Status
from holdfast.store.executor import Transaction, Value
from holdfast.store.ports.journal import Decide, Ruling, check_plain
from holdfast.store.tables.bulk_append import build_event_values, encode_integers, encode_texts
from holdfast.store.tables.job_heads import build_move_values, head_of
from holdfast.store.tables.payloads import store_body


class SweptJob(msgspec.Struct, frozen=True, gc=False):
    """A job that was held: its head before, the ruling, and the events that were written."""

    head: JobHead
    ruling: Ruling
    events: tuple[SealedEvent, ...]


async def hold_expired_in(
    tx: Transaction, decide: Decide, limit: int, tried: list[list[SweptJob]]
) -> list[SweptJob]:
    """Write what `decide` returns about each job whose lease has expired, within this transaction.

    As in `hold_in`, `tried` collects the results of earlier tries: if one of their events is in a journal, that try was
    committed and its reply was lost.
    """
    for earlier in tried:
        if await _is_there(tx, earlier[0]):
            return earlier
    rows = await tx.rows("lock_expired_heads", limit=limit)
    if not rows:
        return []
    sealer, swept = _Sealer(at=rows[0][-1]), list[SweptJob]()
    for head in map(head_of, rows):
        ruling = decide(head)
        if ruling is not None:
            swept.append(sealer.seal(head, check_plain(ruling)))
    if swept:
        if _is_usual(swept) and not tx.seals:
            await (_write_batch_alike if tx.batches else _write_alike)(tx, swept)
        else:
            await (_write_batch if tx.batches else _write_each)(tx, swept)
        for queue in {job.head.queue for job in swept if job.ruling.move.status is Status.PENDING}:
            tx.hint(f"queue:{queue}")
        tried.append(swept)
    return swept


async def _is_there(tx: Transaction, swept: SweptJob) -> bool:
    seq, hash_ = _find_head(swept)
    return await tx.row("has_event", job_id=swept.head.job_id, seq=seq, hash=hash_) is not None


def _find_head(swept: SweptJob) -> tuple[int, bytes]:
    """The seq and hash of the head after the events."""
    last = swept.events[-1] if swept.events else None
    return (swept.head.head_seq, swept.head.head_hash) if last is None else (last.seq, last.hash)


class _Sealer:
    """Encodes and hashes the events of a sweep. Many jobs get an equal event (the same worker lost them), so an event
    is encoded and hashed once; chaining it to a journal is one more hash."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._bodies: dict[int, tuple[Event, bytes, bytes]] = {}

    def seal(self, head: JobHead, ruling: Ruling) -> SweptJob:
        seq, link, fence, at = head.head_seq, head.head_hash, head.fence + 1, self._at
        events: list[SealedEvent] = []
        for event in ruling.events:
            # By identity: the dictionary keeps the event alive, so no other object gets its id.
            known = self._bodies.get(id(event))
            if known is None:
                body = body_of(event)
                known = self._bodies[id(event)] = (event, body, hashlib.sha256(body).digest())
            _, body, digest = known
            seq, type_, version = seq + 1, event.type, event.version
            link = chain(link, digest, head.job_id, seq, type_, version, fence, at)
            events.append(SealedEvent(seq, type_, version, fence, at, body, digest, link))
        return SweptJob(head, ruling, tuple(events))


def _is_usual(swept: Sequence[SweptJob]) -> bool:
    """Whether every job got one event that fits its row."""
    return all(
        len(job.events) == 1 and len(job.events[0].body or b"") <= PAYLOAD_INLINE_BYTES for job in swept
    )


def _build_outcome(swept: SweptJob) -> tuple[Value, ...]:
    """The columns that the ruling sets besides the new head. For a job that keeps its place in the queue the columns of
    that place are unset, so that all such jobs have equal outcomes."""
    move, head = swept.ruling.move, swept.head
    requeues = move.status is Status.PENDING and move.ready_at != head.ready_at
    ready_at = (move.ready_at or None) if requeues else None
    counted = (int(move.failed), int(move.anew), int(move.takeover))
    return (*counted, move.status, move.reason, move.wake_at, int(requeues), ready_at)


_OUTCOME = ("failed", "anew", "taken_over", "status", "wait_reason", "wake_at", "requeues", "ready_at")


def _get_event_columns(event: SealedEvent) -> tuple[Value, ...]:
    return (event.type, event.version, event.body, event.body_digest)


_FACT = ("type", "version", "body", "body_digest")


# ── row by row ────────────────────────────────────────────────────────────────────────────────────


async def _write_each(tx: Transaction, swept: Sequence[SweptJob]) -> None:
    await tx.rows_each("write_ruling", [_build_head_values(job) for job in swept])
    await tx.rows_each("insert_event", await _build_event_rows(tx, swept))


def _build_head_values(swept: SweptJob) -> dict[str, Value]:
    seq, hash_ = _find_head(swept)
    return {
        "job_id": swept.head.job_id,
        "head_seq": seq,
        "head_hash": hash_,
        "fence": swept.head.fence + 1,
        **build_move_values(swept.ruling.move),
    }


async def _build_event_rows(tx: Transaction, swept: Sequence[SweptJob]) -> list[dict[str, Value]]:
    """The events as rows; a body too large for its row is stored as a blob."""
    rows = []
    for job in swept:
        for event in job.events:
            row = build_event_values(job.head.job_id, event)
            if event.body is not None and len(event.body) > PAYLOAD_INLINE_BYTES:
                stored = await store_body(tx, job.head.namespace, event.body, event.body_digest)
                row["body"] = stored.inline
            rows.append(row)
    return rows


# ── equal rulings ─────────────────────────────────────────────────────────────────────────────────


async def _write_alike(tx: Transaction, swept: Sequence[SweptJob]) -> None:
    groups: dict[tuple[tuple[Value, ...], tuple[Value, ...]], list[SweptJob]] = {}
    for job in swept:
        groups.setdefault((_build_outcome(job), _get_event_columns(job.events[0])), []).append(job)
    for (outcome, fact), jobs in groups.items():
        job_ids = [job.head.job_id for job in jobs]
        hashes = b"".join([job.events[0].hash for job in jobs])
        moved = dict(zip(_OUTCOME, outcome, strict=True))
        written = dict(zip(_FACT, fact, strict=True))
        await tx.run("move_heads_alike", job_ids=job_ids, hashes=hashes, **moved)
        await tx.run("insert_equal_events", job_ids=job_ids, at=jobs[0].events[0].at, **written)


# ── column by column ──────────────────────────────────────────────────────────────────────────────


class _ValueNumbers:
    """Numbers distinct values from 1, and keeps each once."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Value, ...], int] = {}

    def number(self, value: tuple[Value, ...]) -> int:
        return self._numbers.setdefault(value, len(self._numbers) + 1)

    @property
    def kept(self) -> list[tuple[Value, ...]]:
        return list(self._numbers)


async def _write_batch(tx: Transaction, swept: Sequence[SweptJob]) -> None:
    heads, events = [_build_head_values(job) for job in swept], await _build_event_rows(tx, swept)
    columns: dict[str, Value] = {f"each_{name}": [row[name] for row in heads] for name in heads[0]}
    columns |= {f"event_{name}": [row[name] for row in events] for name in events[0]}
    await tx.run("write_rulings", **columns)


async def _write_batch_alike(tx: Transaction, swept: Sequence[SweptJob]) -> None:
    outcomes, facts = _ValueNumbers(), _ValueNumbers()
    events = [job.events[0] for job in swept]
    await tx.run(
        "write_equal_rulings",
        each_job_id=encode_texts([job.head.job_id for job in swept]),
        each_outcome=encode_integers([outcomes.number(_build_outcome(job)) for job in swept]),
        each_fact=encode_integers([facts.number(_get_event_columns(event)) for event in events]),
        hashes=b"".join([event.hash for event in events]),
        at=events[0].at,
        **_build_columns(_OUTCOME, outcomes.kept),
        **_build_columns(_FACT, facts.kept),
    )


def _build_columns(names: Sequence[str], rows: Sequence[Sequence[Value]]) -> dict[str, Value]:
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
