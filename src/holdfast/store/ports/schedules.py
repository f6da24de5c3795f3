"""Schedules: which job begins when. Whoever finds one due may fire it; it fires once."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.jobs import DEFAULT_NAMESPACE, JobDraft, Submitted
from holdfast.model.page import Page
from holdfast.model.schedule import Schedule


class Schedules(Protocol):
    async def put(self, schedule: Schedule) -> Schedule:
        """The schedule stands as given, in place of any other under its id; the answer is what is stored.

        One that had the same times before goes on where it stands: its `next_at`, its pause and the instant of its
        making stay. With other times it starts from the given `next_at`, and a pause stays.
        """
        ...

    async def get(self, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
        """The schedule, or NotFound."""
        ...

    async def list(
        self, *, namespace: str = DEFAULT_NAMESPACE, limit: int = 100, cursor: str | None = None
    ) -> Page[Schedule]:
        """Schedules by id. The cursor of one page leads to the next."""
        ...

    async def due(self, *, limit: int = 100) -> tuple[Schedule, ...]:
        """Schedules of all namespaces whose instant has come and that are not paused, longest due first."""
        ...

    async def fire(self, schedule: Schedule, job: JobDraft | None, next_at: int) -> Submitted | None:
        """The job exists and the schedule stands at `next_at`, in one transaction; None: not by this call.

        It is done only if the stored schedule still is the given one and is not paused; so of two that fire the same
        instant one does, and nobody fires what was changed or removed meanwhile. A job that stood under this request
        key before is left as it is. Without a job the instant is left out: the answer is then None, too. Busy leaves
        everything as it was.
        """
        ...

    async def pause(self, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
        """The schedule does not fire; NotFound if there is none. Twice is once."""
        ...

    async def resume(self, schedule_id: str, next_at: int, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
        """The schedule fires again, from `next_at` on; NotFound if there is none. One that was not paused is left."""
        ...

    async def remove(self, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        """There is no such schedule; says whether there was one. Its jobs stay."""
        ...
