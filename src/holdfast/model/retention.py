"""Retention: which ended jobs may be erased or removed, and which of their data.

Two ways, which can follow each other:

    erase     the job stays, with its input, its output, its ledger and the whole hash chain of its journal. The bodies
              of its steps, calls and messages are deleted. It can no longer be replayed or forked
    remove    the job is deleted. A tombstone stays: its id and request key are not issued again, because the
              idempotency keys of its calls are derived from that id, and a second job under it would look to a
              receiver like the first

Neither applies to a job that may still be needed: one that has not ended, one whose parent has not ended, one with a
call of unknown outcome, one with children that are kept. And the ledger of a job that made calls is not removed while a
receiver may still remember its idempotency keys.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.errors import InvalidSetting
from holdfast.model.states import TERMINAL, Status
from holdfast.model.time import DAY


class PruneMode(StrEnum):
    ERASE = "erase"
    REMOVE = "remove"


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A retention policy. `keys_live_us`: how long receivers remember idempotency keys. `batch`: jobs per commit."""

    older_than_us: int
    how: PruneMode = PruneMode.ERASE
    keys_live_us: int = 7 * DAY
    blob_grace_us: int = 1 * DAY
    batch: int = 100


class RetentionRow(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a job that the rule reads. Field order is the order of the columns."""

    job_id: str
    namespace: str
    kind: str
    status: Status
    head_seq: int
    head_hash: bytes
    created_at: int
    ended_at: int
    request_key: str | None
    request_digest: bytes
    parent_status: Status | None
    children: int
    calls: int
    open_calls: int
    pruned: PruneMode | None


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """Tombstone of a job that was erased or removed: its id, how it ended, and the hash of its journal."""

    job_id: str
    namespace: str
    kind: str
    status: Status
    head_seq: int
    head_hash: bytes
    created_at: int
    ended_at: int
    pruned_at: int
    how: PruneMode


class PruneResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one job: how many events were erased or removed, how many bytes; or the reason why it was kept."""

    job_id: str
    events: int = 0
    size: int = 0
    kept: str | None = None


ERASABLE: Final = frozenset(
    {
        "step_finished",
        "llm_requested",
        "llm_responded",
        "tool_called",
        "tool_returned",
        "tool_failed",
        "plan_generated",
        "checkpoint_saved",
        "signal_received",
        "question_asked",
        "job_parked",
        "job_stalled",
    }
)
"""Events whose bodies are content of code and people. The remaining events show who held the job, what it waited for,
what a person decided, and how it ended."""

CHILDREN_KEPT: Final = "its children are kept"
_ONCE: Final = 100_000


def check_policy(policy: RetentionPolicy) -> RetentionPolicy:
    """Return the policy, or raise an error that says what to change."""
    spans = (policy.older_than_us, policy.keys_live_us, policy.blob_grace_us)
    if min(spans) < 0 or not 1 <= policy.batch <= _ONCE:
        msg = "a retention policy needs spans of time that are not negative, and at least one job per commit"
        raise InvalidSetting(msg, hint="Give the minimum age of a job: --older-than 30d")
    return policy


def find_reason_to_keep(job: RetentionRow, policy: RetentionPolicy, *, now: int) -> str | None:
    """Why this job is kept as it is; None if it may be pruned."""
    if job.status not in TERMINAL:
        return "not over"
    age = now - job.ended_at
    if age < policy.older_than_us:
        return "too young"
    if job.pruned is policy.how:
        return "done before"
    if job.parent_status is not None and job.parent_status not in TERMINAL:
        return "its parent is not over"
    if job.open_calls:
        return "a call of unknown outcome"
    if policy.how is PruneMode.REMOVE and job.children:
        return CHILDREN_KEPT
    if policy.how is PruneMode.REMOVE and job.calls and age < policy.keys_live_us:
        return "receivers may remember its keys"
    return None
