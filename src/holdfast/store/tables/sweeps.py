"""A short hold on every job whose lease is over: the sweep's one transaction.

The heads are read under lock, judged in Python, and written back together with their events: two statements down the
list on SQLite, one round trip on Postgres. What is judged is the row that is written, so a holder that renews in
between keeps its job, and of two sweeps one finds nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from holdfast.model.chain import Head, SealedEvent, body_of, chain
from holdfast.model.events import Event
from holdfast.model.jobs import JobHead
from holdfast.model.limits import PAYLOAD_INLINE_BYTES
from holdfast.model.states import Status
from holdfast.store.executor import Transaction, Value
from holdfast.store.ports.journal import Decide, Ruling, check_plain
from holdfast.store.tables.batches import event_values
from holdfast.store.tables.bodies import store_body
from holdfast.store.tables.heads import head_of, move_values


class Swept(msgspec.Struct, frozen=True):
    """A job that was held: its head before, what was ruled, and where that led."""

    head: JobHead
    ruling: Ruling
    events: tuple[SealedEvent, ...]
    end: Head


async def hold_expired_in(
    tx: Transaction, decide: Decide, limit: int, tried: list[list[Swept]]
) -> list[Swept]:
    """What `decide` says about each job whose lease is over is written within this transaction.

    As with a single hold, `tried` remembers where earlier tries led: one of their events in a journal says that the
    try was committed and only its reply was lost.
    """
    for earlier in tried:
        if await _is_there(tx, earlier[0]):
            return earlier
    heads = [head_of(row) for row in await tx.rows("expired_heads", limit=limit)]
    rulings = [(head, decide(head)) for head in heads]
    clock = await tx.row("wall_clock")
    assert clock is not None
    sealer = _Sealer(clock[0])
    swept = [sealer.sealed(head, check_plain(ruling)) for head, ruling in rulings if ruling is not None]
    if swept:
        await (_write_batch if tx.batches else _write_each)(tx, swept)
        for queue in {one.head.queue for one in swept if one.ruling.move.status is Status.PENDING}:
            tx.hint(f"queue:{queue}")
        tried.append(swept)
    return swept


async def _is_there(tx: Transaction, swept: Swept) -> bool:
    job_id, end = swept.head.job_id, swept.end
    return await tx.row("has_event", job_id=job_id, seq=end.seq, hash=end.hash) is not None


class _Sealer:
    """Seals what a sweep writes. Many jobs get the very same fact (the same worker lost them), so a fact is written and
    hashed once; placing it in a journal is one more hash."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._bodies: dict[int, tuple[Event, bytes, bytes]] = {}

    def sealed(self, head: JobHead, ruling: Ruling) -> Swept:
        end, fence, events = head.head, head.fence + 1, []
        for event in ruling.events:
            # By identity, and the event is kept: so its id is nobody else's meanwhile.
            known = self._bodies.get(id(event))
            if known is None:
                body = body_of(event)
                known = self._bodies[id(event)] = (event, body, hashlib.sha256(body).digest())
            _, body, digest = known
            seq, type_, version = end.seq + 1, event.type, event.version
            hash_ = chain(end.hash, digest, head.job_id, seq, type_, version, fence, self._at)
            events.append(SealedEvent(seq, type_, version, fence, self._at, body, digest, hash_))
            end = Head(seq, hash_)
        return Swept(head, ruling, tuple(events), end)


def _head_values(swept: Swept) -> dict[str, Value]:
    return {
        "job_id": swept.head.job_id,
        "head_seq": swept.end.seq,
        "head_hash": swept.end.hash,
        "fence": swept.head.fence + 1,
        **move_values(swept.ruling.move),
    }


async def _event_rows(tx: Transaction, swept: Sequence[Swept]) -> list[dict[str, Value]]:
    """The events as rows; a body too large for its row has become a blob."""
    rows = []
    for one in swept:
        for event in one.events:
            row = event_values(one.head.job_id, event)
            if event.body is not None and len(event.body) > PAYLOAD_INLINE_BYTES:
                stored = await store_body(tx, one.head.namespace, event.body, event.body_digest)
                row["body"] = stored.inline
            rows.append(row)
    return rows


async def _write_each(tx: Transaction, swept: Sequence[Swept]) -> None:
    await tx.rows_each("hold_move", [_head_values(one) for one in swept])
    await tx.rows_each("insert_event", await _event_rows(tx, swept))


async def _write_batch(tx: Transaction, swept: Sequence[Swept]) -> None:
    heads, events = [_head_values(one) for one in swept], await _event_rows(tx, swept)
    columns: dict[str, Value] = {f"each_{name}": [row[name] for row in heads] for name in heads[0]}
    columns |= {f"event_{name}": [row[name] for row in events] for name in events[0]}
    await tx.run("hold_batch", **columns)
