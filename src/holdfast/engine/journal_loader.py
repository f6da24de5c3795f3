"""Journal loader: reads the journal of a claimed job from its last checkpoint on, checks each event and replays it.

    whole       1 2 3 … n                       no checkpoint yet, or a short journal, or a checkpoint without snapshot
    shortened   1    c-1  c  c+1 … n            c is the last checkpoint

Every event that is used is linked to the head that the claim names. The hash links from c-1 to n are computed again
and must end there. What matters of the events between is in c, and so is the digest of the first event. So a change to
an event that is used is detected as surely as if the whole journal were read; `verify` reads the whole journal, and
also finds changes to events that are not used.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import Broken
from holdfast.model import job_state
from holdfast.model.checkpoint_snapshot import CheckpointSnapshot, restore_snapshot, unpack_snapshot
from holdfast.model.events import (
    CheckpointSaved,
    Event,
)
from holdfast.model.hash_chain import EMPTY, Head, SealedEvent, unseal, unseal_all
from holdfast.model.lease import Grant
from holdfast.model.replay_history import History
from holdfast.store.ports.journal import Journal


async def load_journal(journal: Journal, grant: Grant, short: int) -> list[SealedEvent]:
    """Reads the events that a run of this job needs; all of them, if the journal is short. Asks for one event more
    than the head names: if it exists, another holder has written it."""
    limit = grant.head_seq + 1
    if grant.head_seq > short:
        sealed = await journal.since_commit(grant.job_id, limit=limit)
        if _is_whole(sealed) or _find_checkpoint(sealed) is not None:
            return sealed
    return await journal.read(grant.job_id, limit=limit)


def replay_events(
    job_id: str, sealed: Sequence[SealedEvent], history: History
) -> tuple[job_state.JobState, Event | None]:
    """Replays the events into the history. Returns the job's state and its first event. Broken, if the journal is not
    consistent."""
    if not sealed:
        return job_state.JobState(), None
    first, job, head = sealed[0], job_state.JobState(), EMPTY
    history.origin = first.body_digest.hex()
    created: Event | None = None
    if not _is_whole(sealed):
        ((_, created),) = unseal_all(job_id, [first])
        job, head = _restore_checkpoint(job_id, sealed, history)
        sealed = sealed[2:]
    step, take = job_state.step, history.take
    try:
        for sealed_event, event in unseal_all(job_id, sealed, head):
            created = event if created is None else created
            step(job, sealed_event.seq, sealed_event.fence, event)
            take(sealed_event.seq, event, sealed_event.at)
    except job_state.Ungrammatical as error:
        msg = f"the journal of job {job_id} is not consistent: {error}"
        raise Broken(msg) from error
    history.heard = job.mail_seq
    return job, created


def _is_whole(sealed: Sequence[SealedEvent]) -> bool:
    return len(sealed) < 2 or sealed[1].seq == 2


def _restore_checkpoint(
    job_id: str, sealed: Sequence[SealedEvent], history: History
) -> tuple[job_state.JobState, Head]:
    """The state before the checkpoint, restored from the checkpoint, and the head that it links to."""
    checkpoint = _find_checkpoint(sealed)
    if checkpoint is None or checkpoint[1].origin != history.origin:
        msg = f"the journal of job {job_id} cannot be read from its last checkpoint on"
        raise Broken(msg)
    commit, carried = checkpoint
    restore_snapshot(carried, history)
    before, at = sealed[1], sealed[2]
    return job_state.restore_job_state(at.seq, at.fence, commit, carried), Head(before.seq, before.hash)


def _find_checkpoint(sealed: Sequence[SealedEvent]) -> tuple[CheckpointSaved, CheckpointSnapshot] | None:
    """The checkpoint at the beginning of a shortened journal, and its snapshot; None: the whole journal is needed."""
    if len(sealed) < 3 or sealed[2].type != CheckpointSaved.type:
        return None
    event = unseal(sealed[2])
    assert isinstance(event, CheckpointSaved)
    carried = unpack_snapshot(event.carries)
    return None if carried is None else (event, carried)
