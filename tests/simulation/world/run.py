"""One seed, lived through and judged."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from typing import Final

import msgspec

from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.model.ids import SequentialIds
from holdfast.store.memory.store import MemoryStore
from holdfast.testing.simulated_process import ProcessLoop
from holdfast.testing.virtual_loop import Deadlock, LoopClock
from holdfast.testing.worker_errors import WorkerErrors
from tests.simulation.world import judge, promises
from tests.simulation.world.mix import FAULT_PHASE_S, Mix, mix_of
from tests.simulation.world.outside import Outside
from tests.simulation.world.people import People
from tests.simulation.world.town import START_US, Town
from tests.simulation.world.witness import Witness

CALM_S: Final = 600.0
"""So long after the last fault everything must have come to its end."""


PASSES_MAX: Final = 50_000
"""A world takes a few thousand; whoever asks again at once, for ever, is caught here."""


class Verdict(msgspec.Struct, frozen=True):
    """What came of a seed. `digest` names the whole history."""

    seed: int
    findings: tuple[str, ...]
    digest: str
    counts: dict[str, int]
    seconds: float

    @property
    def again(self) -> str:
        return f"python -m tests.simulation.world --seed {self.seed}"

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}: {len(self.findings)} findings", *self.findings, self.again])


class World:
    def __init__(self, seed: int, mix: Mix, loop: ProcessLoop) -> None:
        self.seed = seed
        self.loop = loop
        chance = random.Random(f"holdfast {seed}")
        self.witness = Witness(loop)
        self.mix = mix
        self.store = self.witness.watched(MemoryStore(LoopClock(loop, START_US), SequentialIds(seed)))
        self.outside = Outside(mix, chance, self.witness, loop.root)
        self.town = Town(mix, chance, loop, self.store, self.witness, self.outside)
        self.people = People(mix, chance, loop, self.store, self.town.milder_fate, self.witness, self.outside)

    async def live(self) -> None:
        """Faults, then calm."""
        beside = [asyncio.ensure_future(self.people.look_after()), asyncio.ensure_future(self.town.sweep())]
        await asyncio.gather(
            self.people.submit(FAULT_PHASE_S),
            self.people.signal(FAULT_PHASE_S),
            self.town.live(FAULT_PHASE_S),
        )
        await sleep_on_loop(max(0.0, FAULT_PHASE_S - self.loop.clock_time()))
        self.town.come_to_rest()
        self.people.calm = True
        calm_from = self.loop.clock_time()
        while self.loop.clock_time() < calm_from + CALM_S and not await self._settled():
            await sleep_on_loop(5.0)
        for task in beside:
            task.cancel()

    async def _settled(self) -> bool:
        jobs = self.people.jobs()
        heads = {job_id: await self.store.inner.jobs.head(job_id) for job_id in jobs}
        return all(
            promises.may_stay(job_id, heads, self.witness, given["moves"])
            and not self.people.may_resume(heads[job_id])
            for job_id, given in jobs.items()
        )

    async def digest(self) -> str:
        """A name for everything that happened: journals, the outside's log, and the order of both."""
        parts = hashlib.sha256()
        for job_id in self.people.jobs():
            for sealed in await self.store.inner.journal.read(job_id):
                parts.update(sealed.hash)
        parts.update(repr((self.witness.fires, self.witness.landings, self.witness.looks)).encode())
        parts.update(repr(sorted(self.witness.counts.items())).encode())
        return parts.hexdigest()[:16]


def run(seed: int, mix: Mix | None = None) -> Verdict:
    """The world of this seed, from its first second to its judgement."""
    heard = WorkerErrors()
    with ProcessLoop(PASSES_MAX) as loop, heard.listening():
        world = World(seed, mix or mix_of(seed), loop)
        found: list[str] = []
        try:
            loop.run_until_complete(world.live())
        except Deadlock as stuck:
            found.append(f"L3: {stuck}")
        people = world.people
        found += loop.run_until_complete(judge.findings(world.store.inner, world.witness, people))
        found += [f"a worker could not go on: {text}" for text in heard.errors]
        found += [f"unheard: {text}" for text in loop.complaints]
        digest = loop.run_until_complete(world.digest())
        counts = Counter(world.witness.counts)
        for job_id in people.jobs():
            head = loop.run_until_complete(world.store.inner.jobs.head(job_id))
            counts[f"jobs {head.wait_reason or head.status}"] += 1
        return Verdict(seed, tuple(found), digest, dict(counts), loop.time())
