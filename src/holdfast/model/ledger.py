"""The ledger: intent, outcome and receipt of every tool call, one row per step key and generation.

The idempotency key is derived, never random: the same job, step and generation give the same key on every attempt, on
every worker and after a restore, because that is exactly when a receiver must recognise us.
"""

from __future__ import annotations

import hashlib

import msgspec

from holdfast.model.side_effects import CallStatus, Effect


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger row as one append leaves it. Field order is the order of the columns."""

    tool_call_id: str
    job_id: str
    step_key: str
    generation: int = 0
    tool_name: str
    raw_tool_name: str
    side_effect_class: Effect
    status: CallStatus
    idempotency_key: str
    args_digest: str
    attempt: int = 1
    fence: int = 0
    intent_seq: int = 0
    result_seq: int | None = None
    start_by: int | None = None
    longest_call_us: int | None = None
    approval_id: str | None = None
    prepared_at: int = 0
    settled_at: int | None = None


def call_id(job_id: str, step_key: str, generation: int) -> str:
    """The name of a row: one per step key and generation."""
    return f"{job_id}:{step_key}:{generation}"


def idempotency_key(namespace: str, job_id: str, step_key: str, generation: int) -> str:
    """The key a receiver sees: stable over attempts, workers and restores; new for a new generation only."""
    place = "\0".join((namespace, job_id, step_key, str(generation)))
    return "hf_" + hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:40]
