"""Checkpoint snapshot: the state from before a checkpoint that is still needed after it.

A job resumes from its last checkpoint. Of the events before it only a few still count: signals that no wait has taken,
children that have not ended, budget limits that were reached, which worker held the job, how far its mail was read,
when a person last resumed it. The checkpoint's own event stores them, under the same hash as its state. So a resume
reads the journal from the checkpoint on, however long the journal before it is. `verify` compares the snapshot with the
result of the whole journal.

A snapshot that is too large to be written again with every checkpoint is left out: such a job resumes from its whole
journal.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.model import canonical
from holdfast.model.limits import CARRIED_BYTES_MAX
from holdfast.model.replay_history import RecordedSignal

if TYPE_CHECKING:
    from holdfast.model.replay_history import History


class CheckpointSnapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The replay history and the job state before a checkpoint, as far as either is needed after it.

    `origin` is the digest of the job's first event, which a resume reads too: it contains the job's input.
    """

    origin: str
    worker: str
    claims: int
    mail_seq: int = 0
    born: int = 0
    children: dict[str, str] = {}
    signals: tuple[RecordedSignal, ...] = ()
    allowed: tuple[tuple[str, str, int], ...] = ()
    sleeps: int = 0
    pythons: tuple[str, ...] = ()
    misfit: str | None = None
    resumed_at: int = 0


def take_snapshot(history: History) -> CheckpointSnapshot | None:
    """The snapshot of this history; None if the job was asked to cancel, since it will not resume, or has no origin."""
    if history.cancelled or not history.origin:
        return None
    return CheckpointSnapshot(
        history.origin,
        history.worker,
        history.claims,
        history.heard,
        history.born,
        dict(history.children),
        tuple(
            sorted(
                chain.from_iterable(history.signals.values()),
                key=lambda signal: (signal.mail_seq, signal.name),
            )
        ),
        tuple(sorted((*reached, allowed) for reached, allowed in history.stops.allowed.items())),
        history.stops.sleeps,
        tuple(sorted(history.pythons)),
        history.misfit,
        history.resumed_at,
    )


def restore_snapshot(carried: CheckpointSnapshot, history: History) -> None:
    """Restore the snapshot into an empty history: its state is that right before the next commit."""
    history.origin, history.worker, history.claims = carried.origin, carried.worker, carried.claims
    history.heard, history.born, history.misfit = carried.mail_seq, carried.born, carried.misfit
    history.children, history.pythons = dict(carried.children), set(carried.pythons)
    for signal in carried.signals:
        history.signals[signal.name].append(signal)
    history.stops.allowed = {(budget, limit): allowed for budget, limit, allowed in carried.allowed}
    history.stops.sleeps = carried.sleeps
    history.resumed_at = carried.resumed_at


def pack_snapshot(carried: CheckpointSnapshot | None) -> Any:
    """The snapshot as JSON; None if there is none, or if it is too large to be written with every checkpoint."""
    snapshot = None if carried is None else msgspec.to_builtins(carried)
    return snapshot if len(canonical.encode(snapshot)) <= CARRIED_BYTES_MAX else None


def unpack_snapshot(carries: Any) -> CheckpointSnapshot | None:
    """The snapshot that a checkpoint stores; None if the job is to be resumed from its whole journal."""
    try:
        return None if carries is None else msgspec.convert(carries, CheckpointSnapshot)
    except msgspec.ValidationError:
        return None  # a newer version of Holdfast wrote fields that this one does not know
