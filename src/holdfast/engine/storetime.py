"""The one time that all hosts agree on."""

from __future__ import annotations

from holdfast.store.clock import Clock


class StoreTime:
    """The store's time, kept by this host's ticks since the claim. What one run writes down another compares: when to
    wake up, when nobody can be sending any more, how old a key is. Hosts differ about the time; there is one store.

    It counts from when the claim was answered, so it is never ahead; it is behind by at most as long as the claim took.
    """

    def __init__(self, clock: Clock, claimed_at: int, tick: int) -> None:
        self._clock = clock
        self._tick_us = clock.tick_us
        self._ahead_us = claimed_at - tick
        """How far the store's time is ahead of the ticks."""

    def wall_us(self) -> int:
        return self._ahead_us + self._tick_us()

    def tick_us(self) -> int:
        return self._clock.tick_us()

    def boot(self) -> str:
        return self._clock.boot()
