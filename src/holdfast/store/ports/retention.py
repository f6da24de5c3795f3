"""Retention: the one door through which facts leave the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.model.retention import Pruned, RetentionPolicy, Tombstone


class Freed(msgspec.Struct, frozen=True):
    """How many blobs are gone, and how many bytes they had."""

    blobs: int
    size: int


class Retention(Protocol):
    async def over(self, policy: RetentionPolicy, *, after: str = "", limit: int = 100) -> list[str]:
        """Jobs that have been over for as long as the policy says, and are not pruned that way, by id after `after`.

        Which of them may be pruned is decided by `prune`.
        """
        ...

    async def prune(
        self, job_ids: Sequence[str], policy: RetentionPolicy, *, dry_run: bool = False
    ) -> list[Pruned]:
        """Each of these jobs is erased or removed, or kept for a reason; all of it in one commit.

        The rule is `model.retention.kept_because`, asked while the job is locked. A job that is gone is not in the
        answer. With `dry_run` nothing is written, and the answer is what would have been.
        """
        ...

    async def find_tombstone(self, job_id: str) -> Tombstone | None:
        """What is kept of a job that was erased or removed."""
        ...

    async def collect(self, *, grace_us: int, batch: int, dry_run: bool = False) -> Freed:
        """The blobs that nothing refers to, and that nobody has stored for `grace_us`, are gone; `batch` per commit."""
        ...
