"""Index of a task's checkpoints, built from its journal."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from holdfast.kit.evidence import EvidencePack
from holdfast.model.events import (
    CheckpointBegun,
    CheckpointCommitted,
    CheckpointsDropped,
    CheckpointVerified,
)
from holdfast.model.hash_chain import SealedEvent, unseal

_RECENT: Final = 8
_SMALL: Final = 64 * 1024


@dataclass(frozen=True)
class Checkpoint:
    """A committed checkpoint. `verified` is the last recorded verdict; a new verification may give another."""

    checkpoint_id: str
    task_id: str
    checkpoint_type: str
    sequence_number: int
    snapshot: Any
    evidence_pack: EvidencePack
    verified: bool
    work_item_id: str | None = None
    metadata: Any = None
    created_at: int = 0

    @property
    def snapshot_data(self) -> Any:
        return self.snapshot

    def to_dict(self) -> dict[str, Any]:
        return {
            "checkpoint_id": self.checkpoint_id,
            "task_id": self.task_id,
            "checkpoint_type": self.checkpoint_type,
            "sequence_number": self.sequence_number,
            "snapshot": self.snapshot,
            "evidence_pack": self.evidence_pack.to_dict(),
            "verified": self.verified,
            "work_item_id": self.work_item_id,
            "metadata": self.metadata,
            "created_at": self.created_at,
        }


class CheckpointEntry(msgspec.Struct):
    """A checkpoint in the index of its task: where its events are, and its state."""

    step_id: str
    kind: str
    begun_seq: int
    committed_seq: int = 0
    number: int = 0
    name: str | None = None
    holds: bool = False
    dropped: bool = False

    @property
    def checkpoint_id(self) -> str:
        return self.name or self.step_id


@dataclass
class CheckpointIndex:
    """Index of a task's journal as far as it was read. Events do not change, so only new ones are read."""

    seq: int = 0
    commits: int = 0
    entries: dict[str, CheckpointEntry] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    recent: OrderedDict[int, SealedEvent] = field(default_factory=OrderedDict)
    """The last events, if they are small: the process that commits a step reads its two events next."""

    def take(self, sealed: SealedEvent) -> None:
        self.seq = sealed.seq
        if not sealed.type.startswith("checkpoint"):
            return
        if sealed.body is not None and len(sealed.body) <= _SMALL:
            self.recent[sealed.seq] = sealed
            if len(self.recent) > _RECENT:
                self.recent.popitem(last=False)
        match unseal(sealed):
            case CheckpointBegun() as begun:
                self.entries.setdefault(
                    begun.checkpoint_id, CheckpointEntry(begun.checkpoint_id, begun.kind, sealed.seq)
                )
            case CheckpointCommitted() as committed:
                self._commit(sealed.seq, committed)
            case CheckpointVerified() as verified:
                self.entries[verified.checkpoint_id].holds = verified.holds
            case CheckpointsDropped() as dropped:
                for step_id in dropped.checkpoint_ids:
                    self.entries[step_id].dropped = True

    def _commit(self, seq: int, committed: CheckpointCommitted) -> None:
        entry = self.entries[committed.checkpoint_id]
        if entry.committed_seq:
            return  # two processes committed one step: the first commit counts
        self.commits += 1
        entry.committed_seq, entry.number = seq, self.commits
        entry.name, entry.holds = committed.name, committed.holds
        if committed.name is not None:
            self.names.setdefault(committed.name, entry.step_id)

    def find(self, checkpoint_id: str) -> CheckpointEntry | None:
        return self.entries.get(self.names.get(checkpoint_id, checkpoint_id))

    def newest(self) -> Iterator[CheckpointEntry]:
        """The checkpoints that can be rolled back to, the latest first."""
        there = [entry for entry in self.entries.values() if entry.committed_seq and not entry.dropped]
        return iter(sorted(there, key=lambda entry: -entry.number))
