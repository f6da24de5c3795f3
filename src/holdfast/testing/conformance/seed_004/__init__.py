"""The acceptance document for sessions and the inbox: 19 checks, under its names and in its order.

Its words are those of another system; these are ours:

    a store that serves one session     a handle with a persisted binding (`HANDLE`)
    load the session, no id given       look up the session of the handle, then load it
    agent frame, execution snapshot     `Frame`, `Frame.snapshot`
    lease token, fencing token          `Claim.token`, `Claim.fence`
    process wake                        a batch with the source key `process_wake:PROCESS:SEQUENCE`
    durability inline, durable          `Store.tier`, and whether that tier survives a kill

The document also allows stores that declare an attachment manifest and store nothing in it. Ours all store it, so that
variant does not apply and every store runs `attachment_manifest_records_intent_and_commit_stamps`.

The last check tests that everything is there when the data is opened again. A store in memory cannot be reopened; its
backend returns the same store once more, and the check shows that nothing depends on the handle that wrote.
"""

from __future__ import annotations

from typing import Final

from holdfast.testing.conformance.harness import Check
from holdfast.testing.conformance.seed_004.claims import (
    queued_work_claims_respect_boundaries_renewal_and_abandon,
    queued_work_completion_is_lease_guarded,
    queued_work_exact_claim_uses_selected_batch_ids,
    queued_work_join_groups_by_delivery_policy_and_merge_key,
    queued_work_respects_availability_limits_exclusivity_reclaim_and_sessions,
)
from holdfast.testing.conformance.seed_004.inbox import (
    queue_completion_and_turn_commit_stamp_are_atomic,
    queued_wake_delivery_is_source_key_idempotent_and_claimed_once,
    queued_work_cancel_removes_only_unclaimed_batches,
    queued_work_source_keys_are_idempotent_and_list_ordered,
)
from holdfast.testing.conformance.seed_004.sessions import (
    active_path_read_scope_selects_only_requested_ancestry,
    attachment_manifest_records_intent_and_commit_stamps,
    commit_increments_head_and_round_trips_agent_frames,
    commit_rejects_a_different_session_id,
    final_commit_stamp_is_idempotent_and_conflicts_on_changed_hash,
    load_hydrates_checkpoint_and_usage,
    runtime_persistence_reports_declared_durability,
    runtime_persistence_survives_reopen,
    session_metadata_round_trips,
    tombstone_vacuum_and_gc_are_minimally_consistent,
)

SEED_004: Final[tuple[Check, ...]] = (
    runtime_persistence_reports_declared_durability,
    commit_increments_head_and_round_trips_agent_frames,
    commit_rejects_a_different_session_id,
    load_hydrates_checkpoint_and_usage,
    active_path_read_scope_selects_only_requested_ancestry,
    attachment_manifest_records_intent_and_commit_stamps,
    queued_work_source_keys_are_idempotent_and_list_ordered,
    queued_work_cancel_removes_only_unclaimed_batches,
    queued_work_exact_claim_uses_selected_batch_ids,
    queued_work_claims_respect_boundaries_renewal_and_abandon,
    queued_work_respects_availability_limits_exclusivity_reclaim_and_sessions,
    queued_work_join_groups_by_delivery_policy_and_merge_key,
    queued_work_completion_is_lease_guarded,
    queued_wake_delivery_is_source_key_idempotent_and_claimed_once,
    queue_completion_and_turn_commit_stamp_are_atomic,
    session_metadata_round_trips,
    tombstone_vacuum_and_gc_are_minimally_consistent,
    final_commit_stamp_is_idempotent_and_conflicts_on_changed_hash,
    runtime_persistence_survives_reopen,
)
