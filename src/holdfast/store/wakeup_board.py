"""A board of hints: what was hinted at, and who waits for it. Shared by the stores; how hints travel is theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

KEPT_MAX: Final = 4096
"""A hint may be lost, so the board may forget: nobody pays for topics that nobody ever asks about."""


class HintBoard:
    """Hints for the waiters of one event loop."""

    def __init__(self) -> None:
        self._kept: dict[str, None] = {}
        self._waiters: dict[asyncio.Future[None], AbstractSet[str]] = {}

    def deliver(self, topics: Iterable[str]) -> None:
        """The hints are on the board and their waiters are awake. Call it on the waiters' loop."""
        new = dict.fromkeys(topics)
        self._kept |= new
        while len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        for waiter, wanted in list(self._waiters.items()):
            if not waiter.done() and not wanted.isdisjoint(new):
                waiter.set_result(None)

    async def wait(self, topics: AbstractSet[str], timeout_s: float) -> frozenset[str]:
        """The hints for these topics since the last call; none when the time is over."""
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
        """Everybody looks once: hints may have been missed."""
        for waiter, wanted in list(self._waiters.items()):
            self._kept |= dict.fromkeys(wanted)
            if not waiter.done():
                waiter.set_result(None)
