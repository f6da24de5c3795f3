"""How long facts are kept: which jobs may be erased or removed, and what of them.

Two ways, one after the other if somebody wants both:

    erase     the job stays, with its input, its output, its ledger and the whole chain of its journal. What its steps,
              calls and letters said in between is gone. It can no longer be replayed or forked
    remove    the job is gone. A tombstone stays: its id and request key are not given out again, because the keys of
              its calls are made of that id, and a second job under it would look to a receiver like the first

Neither touches a job that somebody may still need: one that is not over, one whose parent is not over, one that has a
call of which nobody knows what came, one with children that are kept. And the ledger of a job that made calls is not
removed while a receiver may still remember its keys.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.errors import InvalidSetting
from holdfast.model.states import TERMINAL, Status
from holdfast.model.time import DAY


class How(StrEnum):
    ERASE = "erase"
    REMOVE = "remove"


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for. `keys_live_us`: for so long receivers remember idempotency keys. `batch`: jobs per commit."""

    older_than_us: int
    how: How = How.ERASE
    keys_live_us: int = 7 * DAY
    blob_grace_us: int = 1 * DAY
    batch: int = 100


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the rule looks at it. Field order is the order of the columns."""

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
    pruned: How | None


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a job that was erased or removed: that it was, how it ended, and the hash of all it did."""

    job_id: str
    namespace: str
    kind: str
    status: Status
    head_seq: int
    head_hash: bytes
    created_at: int
    ended_at: int
    pruned_at: int
    how: How


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one job: how many facts lost their bodies or were removed, how many bytes; or why it was kept."""

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
"""Events whose bodies are what code and people said. What is left tells who held the job, what it waited for, what a
person decided, and how it ended."""

CHILDREN_KEPT: Final = "its children are kept"
_ONCE: Final = 100_000


def check_policy(policy: RetentionPolicy) -> RetentionPolicy:
    """The policy, or an error that says what to change."""
    spans = (policy.older_than_us, policy.keys_live_us, policy.blob_grace_us)
    if min(spans) < 0 or not 1 <= policy.batch <= _ONCE:
        msg = "a retention policy needs spans of time that are not negative, and at least one job per commit"
        raise InvalidSetting(msg, hint="Give the minimum age of a job: --older-than 30d")
    return policy


def find_reason_to_keep(job: Standing, policy: RetentionPolicy, *, now: int) -> str | None:
    """Why this job is left as it is; None when it may be pruned."""
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
    if policy.how is How.REMOVE and job.children:
        return CHILDREN_KEPT
    if policy.how is How.REMOVE and job.calls and age < policy.keys_live_us:
        return "receivers may remember its keys"
    return None
