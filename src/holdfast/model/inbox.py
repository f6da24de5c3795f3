"""Inbox rules: which batches of a session's queue one turn may claim.

A batch says when it may be delivered and whether it needs a turn for itself. A claim takes the earliest ready batches
and never skips one of them:

    candidates   queued, available, and not under a live claim; in enqueue order
    the gate     inside a running turn, a head that waits for the turn's commit stops everything behind it
    exclusive    the head alone
    join         the head and the batches directly behind it with the same delivery and merge key, up to the limit

A claim skips batches that are not available yet or that another claim holds; it does not skip a ready head that the
gate stops. An exact claim names the batches it expects and succeeds only if this rule selects precisely those.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model.ids import check_integer, check_name
from holdfast.model.jobs import JobDraft


class Delivery(StrEnum):
    EARLIEST_SAFE_BOUNDARY = "earliest_safe_boundary"
    AFTER_CURRENT_TURN_COMMIT = "after_current_turn_commit"


class SlotPolicy(StrEnum):
    EXCLUSIVE = "exclusive"
    JOIN = "join"


class Boundary(StrEnum):
    """Position of the claimer: between turns, or at a safe point inside one."""

    IDLE = "idle"
    ACTIVE_TURN_CHECKPOINT = "active_turn_checkpoint"


class BatchState(StrEnum):
    QUEUED = "queued"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


NEVER: Final = "never"
BY_PAYLOAD: Final = "payload"
_GROUP: Final = "group:"


def group(name: str) -> str:
    """The merge key of a named group: batches of one group may share a turn."""
    return _GROUP + check_name(name, "merge group")


class ItemDraft(msgspec.Struct, frozen=True):
    kind: str
    payload: Any


class BatchDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that a sender enqueues. `batch_id` is the sender's, so that a repeated send is recognised."""

    session_id: str
    items: tuple[ItemDraft, ...]
    delivery: Delivery = Delivery.EARLIEST_SAFE_BOUNDARY
    slot: SlotPolicy = SlotPolicy.EXCLUSIVE
    merge_key: str = NEVER
    source_key: str | None = None
    available_at: int = 0
    batch_id: str | None = None
    job_id: str | None = None


class Item(msgspec.Struct, frozen=True):
    item_id: str
    kind: str
    payload: Any


class InboxBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as it is stored. A settled batch keeps its row (the receipt) and drops its items."""

    batch_id: str
    session_id: str
    enqueue_seq: int
    delivery: Delivery
    slot: SlotPolicy
    merge_key: str
    source_key: str | None
    available_at: int
    enqueued_at: int
    state: BatchState
    items: tuple[Item, ...]
    job_id: str | None = None
    settled_by: str | None = None


class Completion(msgspec.Struct, frozen=True):
    """Proof in a turn commit that the turn still owns its input: claim and token."""

    claim_id: str
    token: str
    batch_ids: tuple[str, ...]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A leased hold on batches. The token proves ownership; the clock only decides when others may take over."""

    claim_id: str
    session_id: str
    owner: str
    token: str
    fence: int
    claimed_at: int
    expires_at: int
    batches: tuple[InboxBatch, ...]

    def completion(self) -> Completion:
        return Completion(self.claim_id, self.token, tuple(batch.batch_id for batch in self.batches))


class Candidate(msgspec.Struct, frozen=True):
    """The fields of a ready batch that the rule reads."""

    batch_id: str
    enqueue_seq: int
    delivery: Delivery
    slot: SlotPolicy
    merge_key: str
    claim_fence: int


def select_candidates(
    candidates: Sequence[Candidate], boundary: Boundary, max_batches: int
) -> tuple[Candidate, ...]:
    """The candidates (in enqueue order) that one claim at this boundary takes; empty if it may take none."""
    if not candidates or max_batches < 1:
        return ()
    head = candidates[0]
    if boundary is Boundary.ACTIVE_TURN_CHECKPOINT and head.delivery is Delivery.AFTER_CURRENT_TURN_COMMIT:
        return ()
    if head.slot is SlotPolicy.EXCLUSIVE:
        return (head,)
    taken = [head]
    for candidate in candidates[1:max_batches]:
        if not _may_join(head, candidate):
            break
        taken.append(candidate)
    return tuple(taken)


def _may_join(head: Candidate, other: Candidate) -> bool:
    """Two batches with the merge key `never` have equal keys and do join: the key separates groups, it does not forbid
    joining."""
    return (
        other.slot is SlotPolicy.JOIN
        and other.delivery is head.delivery
        and other.merge_key == head.merge_key
    )


def claim_id(head_batch_id: str, fence: int) -> str:
    """Id of a claim, from its first batch and that batch's fence: one hold never has two ids."""
    return f"{head_batch_id}.{fence}"


def check_claimer(owner: str, token: str) -> None:
    """Check the names of the claimer and its token, or raise an error that says what to change."""
    check_name(owner, "owner")
    check_name(token, "claim token")


def check_delivery(draft: BatchDraft, job: JobDraft) -> None:
    """Check that the job can read the batch, or raise an error that says what to change."""
    check_draft(draft)
    if job.session_id != draft.session_id:
        msg = f"a batch of session {draft.session_id!r} and a job of session {job.session_id!r}"
        raise InvalidPayload(msg, hint="Give the job the session of the batch.")


def check_draft(draft: BatchDraft) -> BatchDraft:
    """Return the draft, or raise an error that says what to change."""
    check_name(draft.session_id, "session id")
    for label, value in (
        ("source key", draft.source_key),
        ("batch id", draft.batch_id),
        ("job id", draft.job_id),
    ):
        if value is not None:
            check_name(value, label)
    check_integer(draft.available_at, "available_at")
    if not draft.items:
        msg = "a batch needs at least one item"
        raise InvalidPayload(msg, hint="Put the message into `items`.")
    for item in draft.items:
        check_name(item.kind, "item kind")
    if draft.merge_key.startswith(_GROUP):
        check_name(draft.merge_key.removeprefix(_GROUP), "merge group")
    elif draft.merge_key not in {NEVER, BY_PAYLOAD}:
        msg = f"merge key {draft.merge_key!r} is not never, payload or group:NAME"
        raise InvalidPayload(msg, hint="Use holdfast.model.inbox.group('name').")
    return draft
