"""Work items: the jobs that are routed by capability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from holdfast.model.jobs import DEFAULT_NAMESPACE, JobHead, WorkItemRow
from holdfast.model.page import Page
from holdfast.model.states import Status, WaitReason
from holdfast.model.work import WorkWhich


class WorkRow(msgspec.Struct, frozen=True):
    """A work item, and how its job is going."""

    item: WorkItemRow
    head: JobHead


class WorkItemStore(Protocol):
    """They are submitted like any other job, with a draft that says what they are."""

    async def find(self, job_id: str) -> WorkItemRow | None:
        """What is asked of this job; None, if it is no work item."""
        ...

    async def list(self, which: WorkWhich, *, limit: int = 100, cursor: str | None = None) -> Page[WorkRow]:
        """Work items, newest id first. The cursor of one page leads to the next."""
        ...

    async def counts(
        self, *, namespace: str = DEFAULT_NAMESPACE
    ) -> Mapping[tuple[str, Status, WaitReason | None], int]:
        """How many work items of each project have each status, and wait for each reason."""
        ...

    async def find_unclaimed(self, limit: int = 100) -> Sequence[str]:
        """Pending work of all namespaces that should not wait for somebody to claim it, by id: its deadline has passed,
        or somebody wrote to it."""
        ...

    async def find_unpreferred(self, capabilities: Sequence[str], *, grace_us: int) -> Sequence[str]:
        """The kinds of pending work for these capabilities that was ready for so long, and that no agent of the type it
        prefers has taken."""
        ...
