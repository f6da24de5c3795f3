"""Heartbeat thread: renews the lease of one work item while its holder works.

The kit has its own renewal loop, because its callers are synchronous, have no event loop, and hold items one by one
under leases that end in store time, as its contract says. Workers renew theirs in `engine.lease_renewal`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol, Self

from holdfast.errors import HoldfastError, InvalidMove, LeaseLost, NotFound, Unavailable

HEARTBEAT_S: Final = 30
FAILURES_MAX: Final = 3

Lost = Callable[[str, HoldfastError], None]
"""Callback, from the heartbeat's thread: the item, and why its lease is lost. The holder must stop working on it."""


class LeaseRenewer(Protocol):
    """What a heartbeat needs from the holder of the lease."""

    def renew_lease(self, work_item_id: str, lease_duration_seconds: float | None = None) -> int: ...


class HeartbeatThread(threading.Thread):
    """Renews one lease at an interval. Stops when the lease is lost, or after three failures in a row."""

    def __init__(
        self,
        manager: LeaseRenewer,
        work_item_id: str,
        interval_seconds: float = HEARTBEAT_S,
        lease_duration_seconds: float | None = None,
        on_lease_lost: Lost | None = None,
        max_failures: int = FAILURES_MAX,
    ) -> None:
        super().__init__(name=f"holdfast-heartbeat-{work_item_id}", daemon=True)
        if interval_seconds <= 0:
            msg = f"a heartbeat cannot beat every {interval_seconds} s"
            raise InvalidMove(msg, hint="Use a third of the lease's duration.")
        self.lost: HoldfastError | None = None
        self.beats = 0
        self._manager = manager
        self._item = work_item_id
        self._interval_s = interval_seconds
        self._duration_s = lease_duration_seconds
        self._on_lease_lost = on_lease_lost
        self._max_failures = max_failures
        self._stopping = threading.Event()

    def run(self) -> None:
        failures = 0
        while not self._stopping.wait(self._interval_s):
            try:
                self._manager.renew_lease(self._item, self._duration_s)
            except (LeaseLost, NotFound) as error:
                self._give_up(error)
                return
            except Unavailable as error:
                failures += 1
                if failures >= self._max_failures:
                    self._give_up(error)
                    return
            else:
                failures = 0
                self.beats += 1

    def stop(self) -> None:
        """Stop renewing; returns when the thread has ended."""
        self._stopping.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _give_up(self, error: HoldfastError) -> None:
        self.lost = error
        if self._on_lease_lost is not None:
            self._on_lease_lost(self._item, error)
