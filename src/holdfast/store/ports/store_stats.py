"""Store statistics: the state of the store in a few numbers."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.store_stats import StoreStats


class StoreStatsReader(Protocol):
    async def look(self) -> StoreStats:
        """The store at one instant, its lines by queue, status and reason.

        It costs as much as there are jobs that are not over, and nothing for those that are: too much for every
        request, and little enough for every few seconds.
        """
        ...
