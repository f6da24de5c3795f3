"""Retention: erases and removes ended jobs, and collects blobs that nothing refers to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.model.retention import PruneResult, RetentionPolicy, Tombstone


class FreedBlobs(msgspec.Struct, frozen=True):
    """How many blobs were removed, and their bytes."""

    blobs: int
    size: int


class Retention(Protocol):
    async def over(self, policy: RetentionPolicy, *, after: str = "", limit: int = 100) -> list[str]:
        """Jobs that ended as long ago as the policy says, and are not pruned that way yet, by id after `after`.

        `prune` decides which of them may be pruned.
        """
        ...

    async def prune(
        self, job_ids: Sequence[str], policy: RetentionPolicy, *, dry_run: bool = False
    ) -> list[PruneResult]:
        """Erase or remove each of these jobs, unless a reason forbids it; all in one commit.

        The rule is `model.retention.find_reason_to_keep`, applied while the job is locked. A job that does not exist is
        left out of the result. With `dry_run` nothing is written; the result is what the call would do.
        """
        ...

    async def find_tombstone(self, job_id: str) -> Tombstone | None:
        """The tombstone of a job that was erased or removed."""
        ...

    async def collect(self, *, grace_us: int, batch: int, dry_run: bool = False) -> FreedBlobs:
        """Remove the blobs that nothing refers to and that were last stored at least `grace_us` ago; `batch` per
        commit."""
        ...
