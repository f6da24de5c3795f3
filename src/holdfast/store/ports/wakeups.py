"""Wake-ups: hints that something may be worth a look. Polling is the truth.

A hint may be lost, doubled or late; nothing may depend on one. It exists so that an idle worker picks a job up within a
millisecond and asks the database once a second.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Protocol


class Wakeups(Protocol):
    async def wait(self, topics: AbstractSet[str], timeout_s: float) -> frozenset[str]:
        """Topics that were hinted at since the last call, as soon as there is one; none when the time is over.

        Topics are `queue:NAME`, `job:ID`, `session:ID` and `stream:ID` (of a job). Hints that arrived while nobody
        waited are kept, so a hint between two calls is not missed. The set may change while somebody waits: what
        counts is what is in it when a hint comes.
        """
        ...

    def hint(self, topic: str) -> None:
        """Tell the others. Called after the commit that makes it true, never before."""
        ...
