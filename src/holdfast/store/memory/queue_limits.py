"""Queue limits in memory."""

from __future__ import annotations

from holdfast.model.jobs import DEFAULT_NAMESPACE, JobDraft
from holdfast.model.queue_limits import QueueLimits, QueueLoad, admit, check_limits
from holdfast.model.states import Status
from holdfast.store.memory.state import MemoryState, MemoryTransaction


class MemoryQueues:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def limit(self, limits: QueueLimits) -> None:
        check_limits(limits)
        with self._state.transaction() as work:
            work.need_namespace(limits.namespace)
            work.tables.limits[limits.namespace, limits.queue] = limits
            if limits == QueueLimits(queue=limits.queue, namespace=limits.namespace):
                del work.tables.limits[limits.namespace, limits.queue]

    async def list(self, *, namespace: str = DEFAULT_NAMESPACE) -> list[QueueLimits]:
        limits = self._state.tables.limits
        return [limits[place] for place in sorted(limits) if place[0] == namespace]


def make_room(work: MemoryTransaction, draft: JobDraft) -> None:
    """Raise Busy unless one more job fits into its queue."""
    place = (draft.namespace, draft.queue)
    if place in work.tables.limits:
        heads = [row.head for row in work.tables.jobs.values()]
        waiting = [
            head.ready_at
            for head in heads
            if head.status is Status.PENDING and (head.namespace, head.queue) == place
        ]
        admit(work.tables.limits[place], QueueLoad(len(waiting), min(waiting, default=None)), 1, work.wall)
