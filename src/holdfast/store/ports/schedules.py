"""Schedules (cron). Any process that finds a schedule due may fire it; each due time fires once."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.jobs import DEFAULT_NAMESPACE, JobDraft, SubmittedJob
from holdfast.model.page import Page
from holdfast.model.schedule import Schedule


class Schedules(Protocol):
    async def put(self, schedule: Schedule) -> Schedule:
        """Store the schedule, in place of any other under its id; returns the stored one.

        If the stored schedule had the same times, its `next_at`, its pause and its creation time stay. With other times
        it starts from the given `next_at`, and a pause stays.
        """
        ...

    async def get(self, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
        """The schedule. Raises NotFound."""
        ...

    async def list(
        self, *, namespace: str = DEFAULT_NAMESPACE, limit: int = 100, cursor: str | None = None
    ) -> Page[Schedule]:
        """Schedules by id, a page at a time; pass the cursor of a page to get the next."""
        ...

    async def due(self, *, limit: int = 100) -> tuple[Schedule, ...]:
        """Schedules of all namespaces that are due and not paused, longest due first."""
        ...

    async def fire(self, schedule: Schedule, job: JobDraft | None, next_at: int) -> SubmittedJob | None:
        """Submit the job and move the schedule to `next_at`, in one transaction. None: this call submitted no job.

        It fires only if the stored schedule equals `schedule` and is not paused; so of two processes that fire the same
        due time one does, and a schedule that was changed or removed meanwhile does not fire. A job that already exists
        under this request key is left unchanged. Without a job the due time is skipped, and the result is None, too.
        Busy leaves everything unchanged.
        """
        ...

    async def pause(self, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
        """Pause the schedule; a second call does nothing. Raises NotFound."""
        ...

    async def resume(self, schedule_id: str, next_at: int, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
        """Resume the schedule, from `next_at` on; one that is not paused is left unchanged. Raises NotFound."""
        ...

    async def remove(self, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        """Remove the schedule; returns whether it existed. Its jobs stay."""
        ...
