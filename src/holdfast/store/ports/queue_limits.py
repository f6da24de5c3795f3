"""Queue limits (admission control). A queue without limits accepts every job."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.queue_limits import QueueLimits


class Queues(Protocol):
    """Limits are checked where a request enters: `jobs.submit`, `jobs.submit_many`, `inbox.deliver`, `schedules.fire`.
    A request that was accepted before gets the same result again. Children, forks and requeued jobs belong to admitted
    work, and are always accepted. Of two requests for the last place one gets it."""

    async def limit(self, limits: QueueLimits) -> None:
        """Set the limits of a queue. Without limits it accepts every job."""
        ...

    async def list(self, *, namespace: str = DEFAULT_NAMESPACE) -> list[QueueLimits]:
        """The limits of a namespace, by queue."""
        ...
