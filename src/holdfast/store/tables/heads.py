"""Heads: reading them, and what follows when a job leaves `running`."""

from __future__ import annotations

import msgspec

from holdfast.errors import NotFound
from holdfast.model.append import Move
from holdfast.model.jobs import JobHead
from holdfast.model.states import Slot, Status, WaitReason
from holdfast.store.executor import Row, Transaction, Value
from holdfast.store.tables.bodies import word


def head_of(row: Row) -> JobHead:
    """The row as a head: the columns come in the order of the fields."""
    head = JobHead(*row)
    return JobHead(
        head.job_id,
        head.namespace,
        head.queue,
        head.kind,
        head.priority,
        word(Status, head.status),
        None if head.wait_reason is None else word(WaitReason, head.wait_reason),
        head.wake_at,
        head.ready_at,
        head.session_id,
        None if head.session_slot is None else word(Slot, head.session_slot),
        *row[11:],
    )


async def lock_head(tx: Transaction, job_id: str) -> JobHead:
    """The head, held until the transaction ends; or NotFound."""
    row = await tx.row("lock_head", job_id=job_id)
    if row is None:
        msg = f"there is no job {job_id!r}"
        raise NotFound(msg)
    return head_of(row)


def move_values(move: Move) -> dict[str, Value]:
    """The columns that a move sets."""
    return {
        "failed": int(move.failed),
        "anew": int(move.anew),
        "taken_over": int(move.takeover),
        "status": move.status,
        "wait_reason": move.reason,
        "wake_at": move.wake_at,
        "requeues": int(move.status is Status.PENDING),
        "ready_at": move.ready_at or None,
    }


class Place(msgspec.Struct, frozen=True):
    """Where a job stands: its queue, and its session's line."""

    job_id: str
    namespace: str
    queue: str
    session_id: str | None
    session_slot: str | None


async def settle_move(tx: Transaction, place: Place, move: Move) -> None:
    """What a move means beyond its own row: timers, the session's line, who should look."""
    if move.status is Status.PENDING:
        tx.hint(f"queue:{place.queue}")
    if not move.over:
        return
    await tx.run("forget_timers", job_id=place.job_id)
    tx.hint(f"job:{place.job_id}")
    if place.session_slot is None or place.session_id is None:
        return
    # The line is locked before it is read, so that a job joining it now is either seen here or sees us gone.
    await tx.row("lock_session", namespace=place.namespace, session_id=place.session_id)
    await tx.run("leave_session", job_id=place.job_id)
    if move.status is not Status.COMPLETED:
        await _leave_inbox(tx, place)
    if place.session_slot == Slot.LIVE:
        await _promote(tx, place.namespace, place.session_id)


async def _leave_inbox(tx: Transaction, place: Place) -> None:
    """Whoever cancels a message's job does not want it answered later; what others sent is theirs again."""
    where = {"namespace": place.namespace, "session_id": place.session_id, "job_id": place.job_id}
    if await tx.row("drop_message", **where) is not None:
        await tx.run(
            "drop_items", namespace=place.namespace, session_id=place.session_id, batch_id=place.job_id
        )
    await tx.run("free_batches", **where)


async def _promote(tx: Transaction, namespace: str, session_id: str) -> None:
    behind = await tx.row("next_behind", namespace=namespace, session_id=session_id)
    if behind is not None:
        promoted = await tx.row("become_live", job_id=behind[0])
        assert promoted is not None, "the job behind was read under the session's lock"
        tx.hint(f"queue:{promoted[0]}")
