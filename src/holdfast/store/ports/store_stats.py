"""Store statistics: jobs by queue, status and reason, and the size of the store."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.store_stats import StoreStats


class StoreStatsReader(Protocol):
    async def read(self) -> StoreStats:
        """The statistics of the store at one instant.

        The cost grows with the number of unfinished jobs, not with that of ended ones: read it every few seconds, not
        with every request.
        """
        ...
