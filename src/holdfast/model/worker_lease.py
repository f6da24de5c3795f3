"""Worker leases: one row per worker process, and when another process may declare it expired.

A worker proves that it lives by changing a number in its row, its *beat*. No clock is stored and none is compared
between hosts: an observer remembers when *it* first saw the present beat, on its own monotonic clock, and declares the
lease expired once that beat has not changed for the whole lease time. The worker counts from before it wrote the beat,
the observer from after it read it, so the worker always stops first.

An observer that was itself away (frozen, suspended, without its store) has seen no beats meanwhile, and starts again:
otherwise the first process that returns after an outage would expire all the others.

Expiry is a compare-and-set on the beat. A worker that beats at the last moment keeps its lease.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.model.lease import LEASE_TTL_US


class WorkerLease(msgspec.Struct, frozen=True):
    """The lease row of one worker. `incarnation` names one registration of it, `identity` its process (see
    `worker_identity`). The lease time is the worker's own, so that workers of one store may differ in it."""

    worker: str
    incarnation: str
    identity: str = ""
    ttl_us: int = LEASE_TTL_US
    beat: int = 0


class LeaseObserver:
    """Decides which worker leases have expired. Times are ticks of this process's monotonic clock."""

    def __init__(self, gap_max_us: int) -> None:
        """`gap_max_us`: an observer that did not look for longer than this was away."""
        self._gap_max_us = gap_max_us
        self._seen: dict[str, tuple[WorkerLease, int]] = {}
        self._looked_at: int | None = None

    def observe(self, leases: Iterable[WorkerLease], *, asked_at: int, answered_at: int) -> list[WorkerLease]:
        """The leases that have expired. `asked_at` and `answered_at` are the ticks before and after the read."""
        if self._looked_at is not None and asked_at - self._looked_at > self._gap_max_us:
            self._seen.clear()
        self._looked_at = answered_at
        seen, expired = {}, []
        for lease in leases:
            known = self._seen.get(lease.worker)
            first_at = known[1] if known is not None and known[0] == lease else answered_at
            seen[lease.worker] = (lease, first_at)
            if asked_at - first_at >= lease.ttl_us:
                expired.append(lease)
        self._seen = seen
        return expired

    def next_expiry(self) -> int | None:
        """The tick at which the first of the observed leases expires, unless it beats before; None if there is none."""
        return min((first_at + lease.ttl_us for lease, first_at in self._seen.values()), default=None)

    def forget(self, worker: str) -> None:
        """Forget the lease of this worker: it is gone."""
        self._seen.pop(worker, None)
