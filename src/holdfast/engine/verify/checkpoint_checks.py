"""Checkpoint checks: a run that starts at a checkpoint has the same state as one that reads the whole journal.

I9    the snapshot in a checkpoint equals the fold of the events before it
"""

from __future__ import annotations

from holdfast.engine.verify.journal_view import Facts, Findings, InvariantViolation
from holdfast.model import job_state
from holdfast.model.checkpoint_snapshot import take_snapshot, unpack_snapshot
from holdfast.model.events import CheckpointSaved
from holdfast.model.replay_history import History


def check_commits(facts: Facts, origin: str) -> Findings:
    """Violations in the checkpoints of a journal that the fold accepts. `origin`: the digest of its first event."""
    if not any(isinstance(fact.event, CheckpointSaved) for fact in facts):
        return
    history, job = History(), job_state.JobState()
    history.origin = origin
    for fact in facts:
        if isinstance(fact.event, CheckpointSaved):
            history.heard = job.mail_seq
            carried = unpack_snapshot(fact.event.carries)
            if carried is not None and carried != take_snapshot(history):
                detail = f"the checkpoint at event {fact.seq} carries something else than the journal before it says"
                yield InvariantViolation("I9", fact.seq, detail)
        job_state.step(job, fact.seq, fact.fence, fact.event)
        history.take(fact.seq, fact.event, fact.at)
