"""Wake-ups: hints that a topic may have changed. Correctness rests on polling.

A hint may be lost, duplicated or late; nothing may depend on one. With hints, an idle worker claims a new job within a
millisecond although it polls the database only once a second.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Protocol


class Wakeups(Protocol):
    async def wait(self, topics: AbstractSet[str], timeout_s: float) -> frozenset[str]:
        """Wait until there is a hint for one of the topics; returns those hinted at since the last call. Empty after
        `timeout_s`.

        Topics are `queue:NAME`, `job:ID`, `session:ID` and `stream:ID` (of a job). Hints that arrive between two calls
        are kept for the next one. The caller may change the set during the wait: a hint is matched against its content
        at that moment.
        """
        ...

    def hint(self, topic: str) -> None:
        """Send a hint to all waiters. Call it after the commit that it announces, never before."""
        ...
