"""Queue limits over SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.model.jobs import DEFAULT_NAMESPACE, JobDraft
from holdfast.model.queue_limits import QueueLimits, QueueLoad, admit, check_limits
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.tables.payloads import need_namespace


class SqlQueues:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def limit(self, limits: QueueLimits) -> None:
        check_limits(limits)
        place = {"namespace": limits.namespace, "queue": limits.queue}

        async def work(tx: Transaction) -> None:
            await need_namespace(tx, limits.namespace)
            if limits.depth_max is None and limits.age_max_us is None:
                await tx.run("remove_queue_limits", **place)
            else:
                await tx.run(
                    "set_queue_limits", depth_max=limits.depth_max, age_max_us=limits.age_max_us, **place
                )

        await self._executor.write(work)

    async def list(self, *, namespace: str = DEFAULT_NAMESPACE) -> list[QueueLimits]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("list_queue_limits", namespace=namespace)

        return [_to_limits(row) for row in await self._executor.read(work, brief=True)]


async def admit_in(tx: Transaction, drafts: Sequence[JobDraft]) -> None:
    """Raise Busy unless all of these new jobs fit into their queues. The limits are locked in the order that every
    transaction uses."""
    new_jobs = Counter((draft.namespace, draft.queue) for draft in drafts)
    for namespace, queue in sorted(new_jobs):
        place = {"namespace": namespace, "queue": queue}
        row = await tx.row("lock_queue_limits", **place)
        if row is not None:
            limits = _to_limits(row)
            load = await tx.row("read_queue_load", enough=limits.depth_max or 0, **place)
            assert load is not None, "counting always gives a row"
            admit(limits, QueueLoad(load[0], load[1]), new_jobs[namespace, queue], load[2])


def _to_limits(row: Row) -> QueueLimits:
    return QueueLimits(**dict(zip(QueueLimits.__struct_fields__, row, strict=True)))
