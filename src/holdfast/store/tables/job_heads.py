"""Job heads: reading them, and the consequences of a move."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.errors import NotFound
from holdfast.model.append import Move
from holdfast.model.jobs import JobHead
from holdfast.model.states import Slot, Status, WaitReason
from holdfast.store.executor import Row, Transaction, Value
from holdfast.store.tables.payloads import to_enum


def head_of(row: Row) -> JobHead:
    """Convert a row, whose first columns are in the order of the fields, to a head."""
    values = list(row[:_COLUMNS])
    values[_STATUS] = _WORDS.get(row[_STATUS]) or to_enum(Status, row[_STATUS])
    if row[_REASON] is not None:
        values[_REASON] = to_enum(WaitReason, row[_REASON])
    if row[_SLOT] is not None:
        values[_SLOT] = to_enum(Slot, row[_SLOT])
    return JobHead(*values)


_COLUMNS = len(JobHead.__struct_fields__)
_STATUS, _REASON, _SLOT = (
    JobHead.__struct_fields__.index(name) for name in ("status", "wait_reason", "session_slot")
)
_WORDS: Mapping[str, Status] = {status.value: status for status in Status}


async def lock_head(tx: Transaction, job_id: str) -> JobHead:
    """The head, locked until the transaction ends. Raises NotFound."""
    row = await tx.row("lock_head", job_id=job_id)
    if row is None:
        msg = f"there is no job {job_id!r}"
        raise NotFound(msg)
    return head_of(row)


def build_move_values(move: Move) -> dict[str, Value]:
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


class QueuePosition(msgspec.Struct, frozen=True):
    """The queue of a job, and its place in the queue of its session."""

    job_id: str
    namespace: str
    queue: str
    session_id: str | None
    session_slot: str | None


async def settle_move(tx: Transaction, place: QueuePosition, move: Move) -> None:
    """Write what a move changes beyond its own row: timers, the session's queue of jobs; and send wake-ups."""
    if move.status is Status.PENDING:
        tx.hint(f"queue:{place.queue}")
    if not move.over:
        return
    await tx.run("remove_timers", job_id=place.job_id)
    tx.hint(f"job:{place.job_id}")
    if place.session_slot is None or place.session_id is None:
        return
    # The session is locked before it is read: a job that joins it now is either seen here, or sees that this one left.
    await tx.row("lock_session", namespace=place.namespace, session_id=place.session_id)
    await tx.run("leave_session", job_id=place.job_id)
    if move.status is not Status.COMPLETED:
        await _leave_inbox(tx, place)
    if place.session_slot == Slot.LIVE:
        await _promote(tx, place.namespace, place.session_id)


async def _leave_inbox(tx: Transaction, place: QueuePosition) -> None:
    """Remove the message of a cancelled or failed job, which is not to be answered later; release the batches that it
    claimed from other senders."""
    where = {"namespace": place.namespace, "session_id": place.session_id, "job_id": place.job_id}
    if await tx.row("remove_message", **where) is not None:
        await tx.run(
            "remove_items", namespace=place.namespace, session_id=place.session_id, batch_id=place.job_id
        )
    await tx.run("release_batches", **where)


async def _promote(tx: Transaction, namespace: str, session_id: str) -> None:
    behind = await tx.row("find_next_job", namespace=namespace, session_id=session_id)
    if behind is not None:
        promoted = await tx.row("promote_job", job_id=behind[0])
        assert promoted is not None, "the job behind was read under the session's lock"
        tx.hint(f"queue:{promoted[0]}")
