"""Wake-up board: the topics that were hinted at, and the waiters for each. The stores share it; each has its own
transport for hints."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

KEPT_MAX: Final = 4096
"""The board drops the oldest hints beyond this number, so topics without a waiter take bounded memory. A hint may be
lost."""


class HintBoard:
    """Hints for the waiters of one event loop."""

    def __init__(self) -> None:
        self._kept: dict[str, None] = {}
        self._waiters: dict[asyncio.Future[None], AbstractSet[str]] = {}

    def deliver(self, topics: Iterable[str]) -> None:
        """Put the hints on the board and wake their waiters. Call it on the waiters' event loop."""
        new = dict.fromkeys(topics)
        self._kept |= new
        while len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        for waiter, awaited in list(self._waiters.items()):
            if not waiter.done() and not awaited.isdisjoint(new):
                waiter.set_result(None)

    async def wait(self, topics: AbstractSet[str], timeout_s: float) -> frozenset[str]:
        """Wait for hints for these topics; return those since the last call. Empty after `timeout_s`."""
        found = self._take(topics)
        if found or timeout_s <= 0:
            return found
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = topics
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            pass
        finally:
            del self._waiters[waiter]
        return self._take(topics)

    def _take(self, topics: AbstractSet[str]) -> frozenset[str]:
        found = frozenset(topics & self._kept.keys())
        for topic in found:
            del self._kept[topic]
        return found

    def wake_all(self) -> None:
        """Wake every waiter, for all its topics: hints may have been lost."""
        for waiter, awaited in list(self._waiters.items()):
            self._kept |= dict.fromkeys(awaited)
            if not waiter.done():
                waiter.set_result(None)
