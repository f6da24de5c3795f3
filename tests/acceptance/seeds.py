"""The acceptance documents as lists of named checks. What is in a list must be shown, or `make acceptance` fails.

A seed is added here together with the first tests that show it, complete from the start: a short list that grows with
the tests would always look finished.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Seed:
    """One document: its checks, and the lanes each of them must be shown on."""

    number: str
    title: str
    lanes: tuple[str, ...]
    checks: tuple[str, ...]

    def has(self, check: str, lane: str) -> bool:
        return check in self.checks and lane in self.lanes


SEEDS = (
    Seed(
        number="000",
        title="the release: an API and workers that may die, and jobs that do not",
        lanes=("sqlite", "postgres"),
        checks=(
            "worker_crash_recovery",
            "api_restart_does_not_affect_jobs",
            "multiple_workers_no_duplicate_execution",
            "planner_determinism",
            "session_persistence",
            "tool_idempotency",
            "event_log_replay",
            "backpressure",
            "cancellation",
        ),
    ),
    Seed(
        number="001",
        title="the kill matrix: jobs that survive any crash, effects that never repeat by accident",
        lanes=("sqlite", "postgres"),
        checks=(
            "kill_during_subagent_task",
            "kill_after_pdf_render_before_upload",
            "kill_after_upload_before_email",
            "kill_after_email_before_ledger_mark",
            "kill_after_email_before_receipt",
            "kill_during_read_only_step",
            "database_checks_as_written",
        ),
    ),
    Seed(
        number="002",
        title="the kit: checkpoints with evidence, leases, the sweep, the cache and the ledger",
        lanes=("sqlite",),
        checks=(
            "kill_9_recovery",
            "concurrent_checkpoint_writes",
            "lease_expiration_and_takeover",
            "recovery_sweep_stress",
            "llm_cache_stress",
            "tool_replay_stress",
            "full_e2e_with_recovery",
            "checkpoint_creation_latency",
            "checkpoint_verification_latency",
            "llm_cache_lookup_latency",
            "tool_replay_latency",
            "full_checkpoint_workflow_latency",
            "100_concurrent_tasks",
            "concurrent_checkpoint_conflicts",
            "lease_contention",
            "recovery_sweep_large_scale",
        ),
    ),
    Seed(
        number="003",
        title="the registry: agents elsewhere, and work that outlives whoever keeps track of them",
        lanes=("nats", "store"),
        checks=(
            "agent_state_is_read_from_the_registry",
            "work_state_is_consistent_across_requests",
            "registry_data_persists",
            "health_check_is_operational",
            "multiple_agents_are_tracked_at_once",
            "stats_reflect_the_current_state",
            "the_server_of_the_registry_is_restarted",
        ),
    ),
    Seed(
        number="004",
        title="sessions and the inbox: the store's contract",
        lanes=("memory", "sqlite", "postgres"),
        checks=(
            "runtime_persistence_reports_declared_durability",
            "commit_increments_head_and_round_trips_agent_frames",
            "commit_rejects_a_different_session_id",
            "load_hydrates_checkpoint_and_usage",
            "active_path_read_scope_selects_only_requested_ancestry",
            "attachment_manifest_records_intent_and_commit_stamps",
            "queued_work_source_keys_are_idempotent_and_list_ordered",
            "queued_work_cancel_removes_only_unclaimed_batches",
            "queued_work_exact_claim_uses_selected_batch_ids",
            "queued_work_claims_respect_boundaries_renewal_and_abandon",
            "queued_work_respects_availability_limits_exclusivity_reclaim_and_sessions",
            "queued_work_join_groups_by_delivery_policy_and_merge_key",
            "queued_work_completion_is_lease_guarded",
            "queued_wake_delivery_is_source_key_idempotent_and_claimed_once",
            "queue_completion_and_turn_commit_stamp_are_atomic",
            "session_metadata_round_trips",
            "tombstone_vacuum_and_gc_are_minimally_consistent",
            "final_commit_stamp_is_idempotent_and_conflicts_on_changed_hash",
            "runtime_persistence_survives_reopen",
        ),
    ),
)
