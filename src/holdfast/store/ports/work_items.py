"""Work items: jobs that are routed by capability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from holdfast.model.jobs import DEFAULT_NAMESPACE, JobHead, WorkItemRow
from holdfast.model.page import Page
from holdfast.model.states import Status, WaitReason
from holdfast.model.work import WorkFilter


class WorkRow(msgspec.Struct, frozen=True):
    """A work item, and the head of its job."""

    item: WorkItemRow
    head: JobHead


class WorkItemStore(Protocol):
    """Work items are submitted like any other job, with a draft that has a work item."""

    async def find(self, job_id: str) -> WorkItemRow | None:
        """The work item of this job; None if the job is no work item."""
        ...

    async def list(
        self, work_filter: WorkFilter, *, limit: int = 100, cursor: str | None = None
    ) -> Page[WorkRow]:
        """Work items, newest id first, a page at a time; pass the cursor of a page to get the next."""
        ...

    async def counts(
        self, *, namespace: str = DEFAULT_NAMESPACE
    ) -> Mapping[tuple[str, Status, WaitReason | None], int]:
        """The number of work items by project, status and wait reason."""
        ...

    async def find_unclaimed(self, limit: int = 100) -> Sequence[str]:
        """Ids of pending work items of all namespaces that need attention before an agent claims them: their deadline
        has passed, or they have mail."""
        ...

    async def find_unpreferred(self, capabilities: Sequence[str], *, grace_us: int) -> Sequence[str]:
        """The kinds of pending work items for these capabilities that have been ready for `grace_us`, and that no agent
        of their preferred type has claimed."""
        ...
