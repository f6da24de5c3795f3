"""A thousand expired leases, events included: what a sweep takes to put all of them back."""

from __future__ import annotations

import gc
from time import perf_counter

from bench.arena import Arena
from bench.contest import Contestant, figure
from bench.ours import Holdfast
from bench.places import Place
from bench.report import Findings, Row, goal
from holdfast.engine.recover import Rules, sweep
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobDraft
from holdfast.store.clock import SystemClock
from holdfast.store.ports.leases import ClaimAsk

EXPIRED = 1000
AT_MOST_MS = 50.0
NEVER = Rules(takeovers_max=1_000_000)
"""Every round takes the jobs over again; here that is not their fault."""


class Sweep(Holdfast):
    """Jobs that are claimed with leases that are over at once."""

    name = "holdfast sweep"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.ids = RandomIds()
        self.clock = SystemClock()

    async def open(self) -> None:
        await super().open()
        await self.store.jobs.submit_many([JobDraft(kind="bench") for _ in range(EXPIRED)])

    async def begin(self) -> None:
        ask = ClaimAsk(
            worker="bench", token=self.ids.new("claim"), queues=("default",), limit=EXPIRED, ttl_us=0
        )
        assert len(await self.store.leases.claim(ask)) == EXPIRED

    async def operation(self, number: int) -> None:
        stats = await sweep(self.store, self.clock, NEVER)
        assert (stats.recovered, stats.errors) == (EXPIRED, 0)


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        (contestant,) = await arena.enter(store, Sweep)
        await contestant.open()
        try:
            took = figure([await _timed(contestant) * 1000 for _ in range(arena.scale.rounds + 1)][1:])
        finally:
            await contestant.close()
        findings.rows.append(
            Row(
                suite="sweep",
                contest=f"{EXPIRED} expired leases",
                store=store,
                contestant=contestant.name,
                measure="one sweep",
                unit="ms",
                value=took.value,
                low=took.low,
                high=took.high,
            )
        )
        if store == "sqlite":
            findings.goals.append(goal(f"sweep {EXPIRED}", took, "at most", AT_MOST_MS, "ms"))


async def _timed(contestant: Contestant) -> float:
    await contestant.begin()
    gc.collect()
    began = perf_counter()
    await contestant.operation(0)
    return perf_counter() - began
