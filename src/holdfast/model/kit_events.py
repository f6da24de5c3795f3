"""Events of the kit: checkpoints of code that runs in its own loop, outside a worker."""

from __future__ import annotations

from holdfast.model.event_base import Event, Json


class CheckpointBegun(Event, frozen=True):
    """The code is about to commit a checkpoint with this state. Without the `CheckpointCommitted` that follows, the
    checkpoint was not reached."""

    type = "checkpoint_begun"
    checkpoint_id: str
    kind: str
    state: Json = None
    work_item_id: str | None = None
    metadata: Json = None


class CheckpointCommitted(Event, frozen=True):
    """The checkpoint is committed. `evidence` is what must hold for it to count, `findings` what was verified at that
    time."""

    type = "checkpoint_committed"
    checkpoint_id: str
    evidence: Json = None
    findings: tuple[Json, ...] = ()
    holds: bool = False
    name: str | None = None


class CheckpointVerified(Event, frozen=True):
    """The evidence of a checkpoint was verified again, with another verdict."""

    type = "checkpoint_verified"
    checkpoint_id: str
    holds: bool
    findings: tuple[Json, ...] = ()


class CheckpointsDropped(Event, frozen=True):
    """These checkpoints are no longer listed or offered for rollback."""

    type = "checkpoints_dropped"
    checkpoint_ids: tuple[str, ...]
    why: str = ""
