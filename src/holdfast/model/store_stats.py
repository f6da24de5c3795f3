"""Store statistics: the figures that an operator needs at a glance."""

from __future__ import annotations

import msgspec

from holdfast.model.states import Status, WaitReason


class QueueStats(msgspec.Struct, frozen=True):
    """Number of jobs of one queue with the same status and wait reason. `takeovers` is the highest count among them."""

    queue: str
    status: Status
    wait_reason: WaitReason | None
    jobs: int
    takeovers: int


class StoreStats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a store. `lines` are the jobs that have not ended. `oldest_ready_us` is how long the oldest ready
    job has been waiting; `expired` are running jobs whose lease has ended, `uncertain` calls whose outcome is unknown,
    `suspects` isolated jobs that no worker has claimed for a while. `now` is the store's time, `bytes` its size."""

    now: int
    lines: tuple[QueueStats, ...] = ()
    oldest_ready_us: int = 0
    expired: int = 0
    uncertain: int = 0
    suspects: int = 0
    cached: int = 0
    cached_over: int = 0
    bytes: int = 0
