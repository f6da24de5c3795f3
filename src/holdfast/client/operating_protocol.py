"""What anybody may ask and say about schedules, queues, namespaces and numbers. The docstrings are the contract."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.client.records import Stats
from holdfast.model.jobs import DEFAULT_QUEUE
from holdfast.model.limits import PRIORITY_DEFAULT, ROWS_PER_PAGE_DEFAULT
from holdfast.model.page import Page
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.schedule import CatchUp, Schedule
from holdfast.store.ports.namespaces import NamespaceRecord


class Operating(Protocol):
    # ── schedules ─────────────────────────────────────────────────────────────────────────────────

    async def create_schedule(
        self,
        schedule_id: str,
        kind: str,
        cron: str,
        *,
        time_zone: str = "UTC",
        catch_up: CatchUp = CatchUp.SKIP,
        input: Any = None,  # noqa: A002 -- the word for it everywhere else
        queue: str = DEFAULT_QUEUE,
        priority: int = PRIORITY_DEFAULT,
    ) -> Schedule:
        """Jobs of this kind begin by the clock, from the next instant on. The same again is the same schedule; another
        one under its id is a Conflict."""
        ...

    async def get_schedule(self, schedule_id: str) -> Schedule:
        """The schedule, or NotFound."""
        ...

    async def list_schedules(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[Schedule]:
        """List schedules by id."""
        ...

    async def pause_schedule(self, schedule_id: str) -> Schedule:
        """Pause a schedule until it is resumed."""
        ...

    async def resume_schedule(self, schedule_id: str) -> Schedule:
        """Resume a schedule from its next time on; times during the pause are skipped."""
        ...

    async def remove_schedule(self, schedule_id: str) -> Schedule:
        """There is no such schedule any more; the answer shows it as it was, or is NotFound. Its jobs stay."""
        ...

    # ── queues ────────────────────────────────────────────────────────────────────────────────────

    async def limit_queue(
        self, queue: str, *, depth_max: int | None = None, age_max_us: int | None = None
    ) -> QueueLimits:
        """Set the limits of a queue. Without limits it accepts every job."""
        ...

    async def list_queues(self) -> tuple[QueueLimits, ...]:
        """List the queues that have limits, by name."""
        ...

    # ── namespaces and numbers ────────────────────────────────────────────────────────────────────

    async def create_namespace(self, namespace: str) -> NamespaceRecord:
        """Create a namespace. Repeating the request changes nothing."""
        ...

    async def list_namespaces(self) -> tuple[NamespaceRecord, ...]:
        """All of them, by name."""
        ...

    async def stats(self) -> Stats:
        """How many jobs of this namespace have each status, at one instant."""
        ...
