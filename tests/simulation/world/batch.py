"""Many seeds, and whether they tested anything.

A batch in which nobody died and nothing was lost shows nothing, however clean it is. So what happened is counted, and
each count has a floor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from tests.simulation.world.run import Verdict, run

FLOORS: Final = {
    "kills": 2.0,
    "freezes": 1.0,
    "takeovers": 1.0,
    "drains": 0.3,
    "jumps": 0.5,
    "outages": 0.4,
    "store reply lost": 0.5,
    "refused by the store": 0.5,
    "request lost": 0.1,
    "reply lost": 0.3,
    "late": 0.5,
    "doubled": 0.05,
    "probes": 0.2,
    "cancels": 0.3,
    "append Fenced": 0.02,
    "append MailWaiting": 0.02,
    "said happened": 0.05,
    "said not_happened": 0.05,
    "fire mail": 1.5,
    "fire pay": 1.0,
    "fire post": 0.7,
    "fire draft": 0.7,
    "fire file": 0.7,
    "fire box": 0.7,
    "signals taken": 0.5,
    "waits too late": 0.03,
    "children": 0.8,
    "children cancelled": 0.04,
    "children heard completed": 0.6,
    "children heard cancelled": 0.01,
    "intents with leave": 0.6,
    "said approved": 0.8,
    "said denied": 0.3,
    "not answered": 0.1,
    "checkpoints": 0.3,
    "resumed: continue": 0.1,
    "resumed: accept": 0.02,
    "swept": 0.1,
    "proven dead": 0.1,
    "jobs completed": 2.0,
    "jobs cancelled": 0.2,
    "jobs dead_letter": 0.04,
    "jobs drift": 0.005,
}
"""How often each must have happened, on average per world."""


class Batch(msgspec.Struct, frozen=True):
    worlds: int
    failed: tuple[Verdict, ...]
    counts: dict[str, int]

    def thin(self) -> list[str]:
        """What happened too rarely to have been tested."""
        return [
            f"{what}: {self.counts.get(what, 0)} in {self.worlds} worlds, at least {floor * self.worlds:.0f} wanted"
            for what, floor in FLOORS.items()
            if self.counts.get(what, 0) < floor * self.worlds
        ]

    def __str__(self) -> str:
        told = ", ".join(f"{what} {times:,}" for what, times in sorted(self.counts.items()))
        return "\n".join(
            [*map(str, self.failed), f"{self.worlds:,} worlds, {len(self.failed)} failed: {told}"]
        )


def run_many(seeds: Iterable[int], stop_after: int = 5) -> Batch:
    """The verdicts of these seeds, up to so many failures."""
    failed: list[Verdict] = []
    counts: Counter[str] = Counter()
    worlds = 0
    for seed in seeds:
        verdict = run(seed)
        worlds += 1
        counts.update(verdict.counts)
        if verdict.findings:
            failed.append(verdict)
            if len(failed) >= stop_after:
                break
    return Batch(worlds, tuple(failed), dict(counts))
