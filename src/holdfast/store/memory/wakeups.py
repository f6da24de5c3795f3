"""Wake-ups inside one process and one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from typing import Final

HINTS_KEPT_MAX: Final = 10_000
"""Limit of the hints that are kept for later waiters. Most jobs never have a waiter. A hint may be lost, so the oldest
are dropped first."""


class _Waiter:
    def __init__(self, topics: AbstractSet[str]) -> None:
        self.topics = topics
        self.found: set[str] = set()
        self.woken = asyncio.Event()


class MemoryWakeups:
    def __init__(self) -> None:
        self._kept: dict[str, None] = {}  # used as a set that remembers its order
        self._waiters: list[_Waiter] = []

    async def wait(self, topics: AbstractSet[str], timeout_s: float) -> frozenset[str]:
        found = frozenset(topics & self._kept.keys())
        if found:
            for topic in found:
                del self._kept[topic]
            return found
        waiter = _Waiter(topics)
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter.woken.wait()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            # The cancelled waiter does not return its hints: they go to another waiter, or are kept for one.
            self._waiters.remove(waiter)
            for topic in waiter.found:
                self.hint(topic)
            raise
        self._waiters.remove(waiter)
        return frozenset(waiter.found)

    def hint(self, topic: str) -> None:
        waiting = [waiter for waiter in self._waiters if topic in waiter.topics]
        for waiter in waiting:
            waiter.found.add(topic)
            waiter.woken.set()
        if not waiting:
            self._kept[topic] = None
            if len(self._kept) > HINTS_KEPT_MAX:
                del self._kept[next(iter(self._kept))]

    def release(self) -> None:
        """Wake every waiter, without a hint."""
        for waiter in self._waiters:
            waiter.woken.set()
