"""Queues: the limits of what a queue admits."""

from __future__ import annotations

import msgspec

from holdfast.api.context import ApiContext
from holdfast.api.operation import operation
from holdfast.api.requests import Name, OperationRequest, Whole
from holdfast.model.access import AccessScope
from holdfast.model.queue_limits import QueueLimits


class QueueList(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[QueueLimits, ...]


class ListQueues(OperationRequest, frozen=True, kw_only=True):
    pass


@operation("GET", "/api/queues", scope=AccessScope.READ)
async def list_queues(api: ApiContext, _request: ListQueues) -> QueueList:
    """List the queues that have limits, by name."""
    return QueueList(items=tuple(await api.store.queues.list(namespace=api.namespace)))


class LimitQueue(OperationRequest, frozen=True, kw_only=True):
    """Limits of a queue. None: no limit."""

    queue: Name
    depth_max: Whole | None = None
    age_max_us: Whole | None = None


@operation("PUT", "/api/queues/{queue}", scope=AccessScope.ADMIN, errors=(415, 422))
async def limit_queue(api: ApiContext, request: LimitQueue) -> QueueLimits:
    """Set the limits of a queue. Without limits it accepts every job."""
    limits = QueueLimits(
        queue=request.queue,
        namespace=api.namespace,
        depth_max=request.depth_max,
        age_max_us=request.age_max_us,
    )
    await api.store.queues.limit(limits)
    return limits


class UnlimitQueue(OperationRequest, frozen=True, kw_only=True):
    queue: Name


@operation("DELETE", "/api/queues/{queue}", scope=AccessScope.ADMIN, errors=(422,))
async def unlimit_queue(api: ApiContext, request: UnlimitQueue) -> QueueLimits:
    """Remove the limits of a queue."""
    return await limit_queue(api, LimitQueue(queue=request.queue))
