"""A thousand expired leases, events included: what a sweep takes to put all of them back, beside the same in two raw
statements."""

from __future__ import annotations

from bench.arena import Arena
from bench.contest import middle, open_contestants, play
from bench.material import RESULT
from bench.ours import Holdfast
from bench.peers.catalogue import LEFT_OUT, make_entrants
from bench.places import Place
from bench.raw.sweep import JOBS as EXPIRED
from bench.raw.sweep import SWEEP
from bench.report import Contest, Findings, make_goal
from holdfast.engine.recovery import RecoveryRules, sweep
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobDraft
from holdfast.store.clock import SystemClock
from holdfast.store.ports.leases import ClaimRequest

AT_MOST_MS = 50.0
NEVER = RecoveryRules(takeovers_max=1_000_000)
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
        ask = ClaimRequest(
            worker="bench", token=self.ids.new("claim"), queues=("default",), limit=EXPIRED, ttl_us=0
        )
        assert len(await self.store.leases.claim(ask)) == EXPIRED

    async def operation(self, number: int) -> None:
        stats = await sweep(self.store, self.clock, NEVER)
        assert (stats.recovered, stats.errors) == (EXPIRED, 0)


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        peers = make_entrants("sweep", store, arena.peers, jobs=EXPIRED, result=RESULT)
        contestants = await arena.enter(store, SWEEP[store], Sweep, *peers)
        absent: list[str] = []
        async with open_contestants(contestants, absent):
            results = await play(contestants, rounds=arena.scale.rounds, operations=1)
        raw, ours, *others = results
        contest = Contest("sweep", f"{EXPIRED} expired leases", store)
        findings.rows += contest.table(results, "one sweep", middle, raw, others)
        took_ms = ours.each(middle).value * 1000
        name = f"sweep {EXPIRED}" if store == "sqlite" else f"sweep {EXPIRED} {store}"
        findings.goals.append(make_goal(name, took_ms, "at most", AT_MOST_MS, "ms"))
        if peers:
            findings.beside("sweep", store, LEFT_OUT["sweep"], absent)
