"""Jobs: submitting and finding them."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Protocol

from holdfast.model.hash_chain import SealedEvent
from holdfast.model.jobs import JobDraft, JobFilter, JobHead, JobNames, JobRecord, SubmittedJob
from holdfast.model.page import Page
from holdfast.model.states import Status, WaitReason


class Jobs(Protocol):
    async def submit(self, draft: JobDraft) -> SubmittedJob:
        """Create a durable job for this request, with `job_created` as its first event.

        A repeat under the same request key (or the same job id) with the same content returns the first job with
        `created=False`; with other content it raises KeyReused and changes nothing.

        A job of a session owns the session's turn (`session_slot` live, status pending) if no other job does;
        otherwise it queues up: status waiting, reason joined, until the job in front has ended. At most one job of a
        session is live at any instant.

        Raises Busy, and writes nothing, if the queue has limits (`queues.limit`) and no room.
        """
        ...

    async def submit_many(self, drafts: Sequence[JobDraft]) -> list[SubmittedJob]:
        """Submit all of them in one commit, or none; the first draft that is rejected decides the error."""
        ...

    async def get(self, job_id: str) -> JobRecord:
        """The job. Raises NotFound."""
        ...

    async def find(self, namespace: str, request_key: str) -> JobRecord | None:
        """The job that this request created, if there is one."""
        ...

    async def head(self, job_id: str) -> JobHead:
        """Head, lease and mail counters as they are now. Raises NotFound."""
        ...

    async def read_with_events(self, job_id: str, *, events: int) -> tuple[JobHead, list[SealedEvent]]:
        """The head, and at most `events` of the first events, both of one instant. Raises NotFound."""
        ...

    async def counts(self, namespace: str | None = None) -> dict[Status, int]:
        """The number of jobs by status; a status without jobs is left out."""
        ...

    async def list(
        self, job_filter: JobFilter, *, limit: int = 100, cursor: str | None = None
    ) -> Page[JobRecord]:
        """Jobs, newest id first, a page at a time; pass the cursor of a page to get the next."""
        ...

    async def list_needing_person(
        self, namespace: str | None = None, *, limit: int = 100, after: str = ""
    ) -> builtins.list[str]:
        """Ids of jobs that may need a person, in order, after `after`: jobs that wait for a person, unfinished jobs
        with an uncertain call, running jobs with an undecided approval or a question, and suspects that no worker has
        claimed for a while (`model.crash_suspects.is_unclaimed`). Only the journal tells whether a question is still
        open."""
        ...

    async def tally(self, job_filter: JobFilter) -> dict[tuple[Status, WaitReason | None], int]:
        """The number of jobs that match, by status and wait reason; pairs without jobs are left out."""
        ...

    async def names(self, namespace: str | None = None, *, limit: int = 200) -> JobNames:
        """The kinds and queues of jobs, in order, at most `limit` of each."""
        ...
