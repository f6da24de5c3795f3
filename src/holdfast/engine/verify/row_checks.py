"""Row checks: invariants that one query can express, and the number of each."""

from __future__ import annotations

from typing import Final

from holdfast.engine.verify.report import Violation
from holdfast.store.executor import Transaction

BY_QUERY: Final = {
    "verify_head_matches_journal": "I5",
    "verify_no_stray_events": "I5",
    "verify_head_hash": "I6",
    "verify_erased_by_retention": "I6",
    "verify_removed_are_gone": "I5",
    "verify_no_fence_from_the_future": "I1",
    "verify_no_stray_passages": "I5",
    "verify_one_grant_per_fence": "I2",
    "verify_epochs": "I37",
    "verify_one_live_job_per_session": "I29",
    "verify_lines_move": "I29",
    "verify_over_is_over": "I27",
    "verify_mail_is_numbered": "I29",
    "verify_only_running_is_leased": "I29",
    "verify_same_namespace": "I34",
    "verify_batches_are_kept": "I19",
    "verify_claims_are_whole": "I4",
    "verify_completed_batches_have_a_turn": "I20",
    "verify_settled_batches_dropped_items": "I19",
    "verify_turns_fit_the_head": "I21",
    "verify_graph_is_linked": "I23",
    "verify_blobs_are_there": "I33",
    "verify_keys_stand_for_one_call": "I14",
}


async def check_rows(tx: Transaction) -> list[Violation]:
    """Every row that breaks one of these invariants."""
    return [
        Violation(invariant, str(subject), str(detail))
        for statement, invariant in BY_QUERY.items()
        for subject, detail in await tx.rows(statement)
    ]
