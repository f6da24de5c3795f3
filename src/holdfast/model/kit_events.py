"""The facts of people with a loop of their own: points that they reach, and what becomes of them."""

from __future__ import annotations

from holdfast.model.event import Event, Json


class CheckpointBegun(Event, frozen=True):
    """Somebody with a loop of their own is about to reach a point, in this state. Without the commit that follows it,
    it says that they did not get there."""

    type = "checkpoint_begun"
    checkpoint_id: str
    kind: str
    state: Json = None
    work_item_id: str | None = None
    metadata: Json = None


class CheckpointCommitted(Event, frozen=True):
    """They got there. `evidence` is what must be true for it to count, `findings` what was found then."""

    type = "checkpoint_committed"
    checkpoint_id: str
    evidence: Json = None
    findings: tuple[Json, ...] = ()
    holds: bool = False
    name: str | None = None


class CheckpointVerified(Event, frozen=True):
    """The evidence of a checkpoint was looked at again, and the verdict is another one now."""

    type = "checkpoint_verified"
    checkpoint_id: str
    holds: bool
    findings: tuple[Json, ...] = ()


class CheckpointsDropped(Event, frozen=True):
    """These points are not offered any more, to list or to go back to."""

    type = "checkpoints_dropped"
    checkpoint_ids: tuple[str, ...]
    why: str = ""
