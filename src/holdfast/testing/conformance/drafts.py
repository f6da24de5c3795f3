"""Test data of the checks: messages, wakes, nodes, ledger rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from holdfast.model.events import Event, ToolCalled, ToolFailed, ToolReconciled, ToolReturned, ToolUncertain
from holdfast.model.inbox import NEVER, BatchDraft, Claim, Delivery, InboxBatch, ItemDraft, SlotPolicy
from holdfast.model.ledger import CallRow, idempotency_key
from holdfast.model.limits import PAYLOAD_INLINE_BYTES
from holdfast.model.session import SessionNode
from holdfast.model.side_effects import CallStatus, Effect
from holdfast.testing.conformance.driver import Driver

EARLIEST: Final = Delivery.EARLIEST_SAFE_BOUNDARY
AFTER_COMMIT: Final = Delivery.AFTER_CURRENT_TURN_COMMIT
EXCLUSIVE: Final = SlotPolicy.EXCLUSIVE
JOIN: Final = SlotPolicy.JOIN

TURN_INPUT: Final = "turn_input"
PROCESS_WAKE: Final = "process_wake"

AWKWARD: Final = {
    "nul": "a\x00b",
    "lone surrogate": "\ud800 and \udfff",
    "key with \x00 and \ud801": "é, 日本, 😀",
    "numbers": [0, -1, 2**63 - 1, 1.0, 0.1, 1e300],
    "nothing": [None, [], {}, ""],
}
"""JSON that models and tools really send, and that databases tend to reject or change."""

LARGE: Final = "large " * PAYLOAD_INLINE_BYTES
"""Text that is too large for its row."""


def message(
    text: str,
    session_id: str = "root",
    *,
    delivery: Delivery = EARLIEST,
    slot: SlotPolicy = EXCLUSIVE,
    merge_key: str = NEVER,
    source_key: str | None = None,
    available_at: int = 0,
    batch_id: str | None = None,
) -> BatchDraft:
    """A batch with one line of text."""
    return BatchDraft(
        session_id=session_id,
        items=(ItemDraft(TURN_INPUT, {"text": text}),),
        delivery=delivery,
        slot=slot,
        merge_key=merge_key,
        source_key=source_key,
        available_at=available_at,
        batch_id=batch_id,
    )


def wake_draft(process_id: str, sequence: int, session_id: str = "root", **payload: Any) -> BatchDraft:
    """The batch that one event of a process sends to a session: sent twice, delivered once, with a turn for itself."""
    return BatchDraft(
        session_id=session_id,
        items=(ItemDraft(PROCESS_WAKE, {"process_id": process_id, "sequence": sequence, **payload}),),
        delivery=EARLIEST,
        slot=EXCLUSIVE,
        source_key=f"process_wake:{process_id}:{sequence}",
    )


def text_of(batch: InboxBatch) -> str | None:
    """The line of text in a message; None for any other batch."""
    item = batch.items[0] if batch.items else None
    return item.payload["text"] if item is not None and item.kind == TURN_INPUT else None


def ids_of(batches: Iterable[InboxBatch]) -> list[str]:
    return [batch.batch_id for batch in batches]


def batches_in(claim: Claim) -> list[str]:
    return ids_of(claim.batches)


def node(node_id: str, parent: str | None = None, body: object = None, at: int = 0) -> SessionNode:
    return SessionNode(
        node_id=node_id, parent_node_id=parent, body={"node": node_id} if body is None else body, at=at
    )


def call_row(driver: Driver, step_key: str, *, generation: int = 0, args: str = "args") -> CallRow:
    """The row of a call whose intent is the first event of the driver's next append."""
    return CallRow(
        tool_call_id=f"call:{driver.job_id}:{step_key}:{generation}",
        job_id=driver.job_id,
        step_key=step_key,
        generation=generation,
        tool_name="mailer",
        raw_tool_name="Mailer.Send",
        side_effect_class=Effect.IDEMPOTENT,
        status=CallStatus.PREPARED,
        idempotency_key=idempotency_key(driver.grant.namespace, driver.job_id, step_key, generation),
        args_digest=args,
        fence=driver.grant.fence,
        intent_seq=driver.next_seq,
        prepared_at=driver.clock.wall_us(),
    )


def make_settled_row(driver: Driver, row: CallRow, status: CallStatus) -> CallRow:
    """The row after the first event of the driver's next append has recorded the outcome of the call."""
    return msgspec.structs.replace(
        row,
        status=status,
        fence=driver.grant.fence,
        result_seq=driver.next_seq,
        settled_at=driver.clock.wall_us(),
    )


def intent_of(row: CallRow) -> ToolCalled:
    return ToolCalled(
        step_key=row.step_key,
        tool=row.tool_name,
        effect=row.side_effect_class,
        args_digest=row.args_digest,
        key=row.idempotency_key,
        generation=row.generation,
        attempt=row.attempt,
    )


def outcome_of(row: CallRow) -> Event:
    """The event that belongs to the row's status."""
    match row.status:
        case CallStatus.PREPARED:
            return intent_of(row)
        case CallStatus.SUCCEEDED:
            return ToolReturned(row.step_key, row.generation)
        case CallStatus.FAILED:
            return ToolFailed(row.step_key, row.generation)
        case CallStatus.UNCERTAIN:
            return ToolUncertain(row.step_key, row.generation)
        case CallStatus.ABANDONED:
            return ToolReconciled(row.step_key, "not_happened", "person", "asked", row.generation)
        case CallStatus.SKIPPED:
            return ToolReconciled(row.step_key, "skip", "person", "asked", row.generation)
