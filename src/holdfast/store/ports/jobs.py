"""Jobs: accepting them, finding them."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Protocol

from holdfast.model.hash_chain import SealedEvent
from holdfast.model.jobs import JobDraft, JobFilter, JobHead, JobNames, JobRecord, Submitted
from holdfast.model.page import Page
from holdfast.model.states import Status, WaitReason


class Jobs(Protocol):
    async def submit(self, draft: JobDraft) -> Submitted:
        """A durable job exists for this request, with `job_created` as its first event.

        A repeat under the same request key (or the same job id) with the same content returns the first job with
        `created=False`; with other content it raises KeyReused and changes nothing.

        A job of a session owns the session's turn (`session_slot` live, status pending) if nobody does; otherwise it
        stands behind: status waiting, reason joined, until the one in front is over. At most one job of a session is
        live at any instant.

        A queue with limits (`queues.limit`) may have no room: Busy, and nothing is there.
        """
        ...

    async def submit_many(self, drafts: Sequence[JobDraft]) -> list[Submitted]:
        """All of them, in one commit, or none; then the first that is refused says why."""
        ...

    async def get(self, job_id: str) -> JobRecord:
        """The job, or NotFound."""
        ...

    async def find(self, namespace: str, request_key: str) -> JobRecord | None:
        """The job that this request made."""
        ...

    async def head(self, job_id: str) -> JobHead:
        """Head, lease and mail counters as they are now, or NotFound."""
        ...

    async def look(self, job_id: str, *, events: int) -> tuple[JobHead, list[SealedEvent]]:
        """The head, and at most so many of the first events, both of one instant; or NotFound."""
        ...

    async def counts(self, namespace: str | None = None) -> dict[Status, int]:
        """How many jobs have each status; a status that no job has is not there."""
        ...

    async def list(self, which: JobFilter, *, limit: int = 100, cursor: str | None = None) -> Page[JobRecord]:
        """Jobs, newest id first. The cursor of one page leads to the next."""
        ...

    async def list_needing_person(
        self, namespace: str | None = None, *, limit: int = 100, after: str = ""
    ) -> builtins.list[str]:
        """Ids of jobs that may need a person, in their order, behind `after`: those that wait for one, those that are
        not over and have an uncertain call, those that run and have asked for an approval that is not decided, or
        put a question, and suspects that no worker has taken for a while (`model.suspicion.is_unclaimed`). Whether a
        question is still open is in the journal."""
        ...

    async def tally(self, which: JobFilter) -> dict[tuple[Status, WaitReason | None], int]:
        """How many jobs fit, by status and by what they wait for; what no job has is not there."""
        ...

    async def names(self, namespace: str | None = None, *, limit: int = 200) -> JobNames:
        """The kinds and queues of jobs, in order, at most so many of each."""
        ...
