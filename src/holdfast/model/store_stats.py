"""How a store is: what people who look after it want to see at a glance."""

from __future__ import annotations

import msgspec

from holdfast.model.states import Status, WaitReason


class QueueStats(msgspec.Struct, frozen=True):
    """Jobs of one queue that stand alike. `takeovers` is the most that any of them has behind it."""

    queue: str
    status: Status
    wait_reason: WaitReason | None
    jobs: int
    takeovers: int


class StoreStats(msgspec.Struct, frozen=True, kw_only=True):
    """`lines` are the jobs that are not over. `oldest_ready_us` is how long the oldest job could have run already;
    `expired` are running jobs whose lease is over, `uncertain` calls of which nobody knows whether they happened,
    `suspects` jobs that run alone and that no worker has taken for a while. `now` is the store's time, `bytes` its
    size."""

    now: int
    lines: tuple[QueueStats, ...] = ()
    oldest_ready_us: int = 0
    expired: int = 0
    uncertain: int = 0
    suspects: int = 0
    cached: int = 0
    cached_over: int = 0
    bytes: int = 0
