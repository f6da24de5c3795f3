"""Worker processes, their clocks, and what strikes them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Set as AbstractSet
from typing import Final

from holdfast.engine.crash_points import Point
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.engine.recovery import RecoveryRules, sweep
from holdfast.engine.runner_config import RunnerConfig
from holdfast.errors import Unavailable
from holdfast.model.ids import SequentialIds
from holdfast.model.time import HOUR
from holdfast.store.contract import Store
from holdfast.store.ports.wakeups import Wakeups
from holdfast.testing.simulated_process import ProcessLoop, SimulatedProcess
from holdfast.testing.virtual_loop import LoopClock, SimLoop
from holdfast.worker.worker import Worker
from tests.simulation.world.mix import Mix
from tests.simulation.world.outside import Line, Outside
from tests.simulation.world.program import Room, program
from tests.simulation.world.witness import CLOCK_RATE_MAX, Witness
from tests.support.faulty_store import GO, Decide, Fate, FaultyStore, Kind

START_US: Final = 1_700_000_000_000_000
POLLS_RARER: Final = 4
"""Simulated workers look by themselves once in four seconds instead of one: a worker that nothing happens to is what a
world spends most of its time on."""

MANY_S: Final = (0.5, 12.0, 40.0, 70.0, 70.0)
"""How long a frozen process stands still: short of its lease, about as long, and well beyond."""


class HostClock:
    """A host's own clock: it runs a little wrong, and somebody may set it."""

    def __init__(self, loop: SimLoop, rate: float, offset_us: int) -> None:
        self._loop = loop
        self._rate = rate
        self._offset_us = offset_us

    def wall_us(self) -> int:
        return START_US + int(self._loop.clock_time() * 1_000_000) + self._offset_us

    def tick_us(self) -> int:
        return int(self._loop.clock_time() * self._rate * 1_000_000)

    def boot(self) -> str:
        return "simulated"

    def jump(self, us: int) -> None:
        self._offset_us += us

    def set_right(self) -> None:
        self._offset_us = 0


class RarePolls:
    """Hints as they come; but the one who looks by itself does so rarely. Deaf: no hint about mail is ever heard."""

    def __init__(self, wakeups: Wakeups, *, rarer: float = POLLS_RARER, deaf: bool = False) -> None:
        self._wakeups = wakeups
        self._rarer = rarer
        self._deaf = deaf
        self.hint = wakeups.hint

    async def wait(self, topics: AbstractSet[str], timeout_s: float) -> frozenset[str]:
        if self._deaf and not any(topic.startswith("queue:") for topic in topics):
            topics = frozenset()
        return await self._wakeups.wait(topics, timeout_s * self._rarer)


class Host:
    """A machine that runs one worker at a time, under a new process name each time."""

    def __init__(self, town: Town, name: str) -> None:
        chance = town.chance
        self._town = town
        self._name = name
        self._starts = 0
        self.clock = HostClock(
            town.loop,
            chance.uniform(2 - CLOCK_RATE_MAX, CLOCK_RATE_MAX),
            chance.choice((0, 0, chance.randint(-2, 2) * 1_000_000)),
        )
        self.process: SimulatedProcess
        self.worker: Worker
        self.done: asyncio.Task[None]

    def boot(self) -> None:
        """A new process runs here."""
        town = self._town
        self._starts += 1
        self.process = process = town.loop.process(f"{self._name}.{self._starts}")
        town.processes[process.name] = process
        store = FaultyStore(town.store, town.fates, process)
        store.wakeups = RarePolls(town.store.wakeups, deaf=town.mix.deaf)
        line = Line(town.outside, process)
        room = Room(town.mix.concurrency, town.witness, process.name)
        desk = RunnerConfig(
            store,
            GroupCommit(store.journal),
            self.clock,
            {"errand": program(line, town.witness, room, town.is_deployed)},
            gone=town.is_gone,
            short=0,
            points=lambda point, tool: town.at_point(self.process, point, tool),
        )
        self.worker = Worker(
            desk, process.name, lambda: town.ids.new("claim"), concurrency=town.mix.concurrency
        )
        self.done = process.start(self.worker.work())

    @property
    def is_down(self) -> bool:
        return self.process.dead or self.done.done()


class Town:
    """All hosts. `calm` ends every strike."""

    def __init__(
        self,
        mix: Mix,
        chance: random.Random,
        loop: ProcessLoop,
        store: Store,
        witness: Witness,
        outside: Outside,
    ) -> None:
        self.mix = mix
        self.chance = chance
        self.loop = loop
        self.store = store
        self.witness = witness
        self.outside = outside
        self.ids = SequentialIds(1)
        self.calm = False
        self._away_until = 0.0
        self.fates: Decide = self._fate
        self.processes: dict[str, SimulatedProcess] = {}
        self._sweeper = FaultyStore(store, self.milder_fate, loop.process("sweeper"))
        self.hosts = [Host(self, f"host-{n}") for n in range(mix.workers)]

    async def live(self, until_s: float) -> None:
        """Strikes at their times; whoever died comes back after a while."""
        for host in self.hosts:
            host.boot()
        await asyncio.gather(
            self._strikes(self.mix.kill_every_s, until_s, self._kill),
            self._strikes(self.mix.freeze_every_s, until_s, self._freeze),
            self._strikes(self.mix.drain_every_s, until_s, self._drain),
            self._strikes(self.mix.jump_every_s, until_s, self._jump),
            self._strikes(self.mix.outage_every_s, until_s, self._outage),
            self._strikes(5.0, until_s, self._revive),
        )

    def come_to_rest(self) -> None:
        """No fault strikes any more; every host is up, awake, and knows the time."""
        self.calm = True
        self.outside.calm = True
        for host in self.hosts:
            host.clock.set_right()
            if host.is_down:
                host.boot()
            elif host.process.thaws_at is not None:
                host.process.thaw()

    def is_gone(self, worker: str) -> bool:
        """Whether it can be proven that this process is dead."""
        return self.mix.proves_death and worker in self.processes and self.processes[worker].dead

    async def sweep(self) -> None:
        """What is owed to the jobs of the dead, now and then, beside the workers. Never ends."""
        rules = RecoveryRules(by=None)
        while self.mix.sweep_every_s:
            await sleep_on_loop(self.chance.uniform(0.3, 1.7) * self.mix.sweep_every_s)
            for name in filter(self.is_gone, list(self.processes)):
                with contextlib.suppress(Unavailable):
                    self.witness.counts["proven dead"] += await self._sweeper.leases.expire(name) or 0
            await sweep(self._sweeper, LoopClock(self.loop, START_US), rules)

    def is_deployed(self) -> bool:
        """Whether programs that start now are of the new version, in which a call has another name."""
        return 0 < self.mix.deployed_at_s < self.loop.clock_time()

    # ── strikes ───────────────────────────────────────────────────────────────────────────────────

    async def _strikes(self, every_s: float, until_s: float, strike: object) -> None:
        assert callable(strike)
        if every_s <= 0:
            return
        while True:
            wait_s = self.chance.uniform(0.3, 1.7) * every_s
            if self.loop.clock_time() + wait_s >= until_s:
                return
            await sleep_on_loop(wait_s)
            strike(self.chance.choice(self.hosts))

    def _kill(self, host: Host) -> None:
        if not host.is_down:
            self.witness.counts["kills"] += 1
            host.process.kill()

    def _freeze(self, host: Host) -> None:
        if not host.is_down:
            self.witness.counts["freezes"] += 1
            host.process.freeze(self.chance.choice(MANY_S))

    def _drain(self, host: Host) -> None:
        if not host.is_down and host.process.thaws_at is None:
            self.witness.counts["drains"] += 1
            host.worker.drain()

    def _jump(self, host: Host) -> None:
        self.witness.counts["jumps"] += 1
        host.clock.jump(self.chance.choice((-3, -1, 1, 2)) * HOUR)

    def _outage(self, _host: Host) -> None:
        self.witness.counts["outages"] += 1
        self._away_until = self.loop.clock_time() + self.chance.choice((0.5, 4.0, 15.0, 35.0))

    def _revive(self, _host: Host) -> None:
        for host in self.hosts:
            if host.is_down:
                host.boot()

    # ── points ────────────────────────────────────────────────────────────────────────────────────

    def _fate(self, point: str) -> Fate:
        if point.startswith("wakeups"):
            return GO
        chance = self.chance
        draw = chance.random()
        before = point.endswith("before")
        if self.calm:
            return Fate(Kind.SLOW, draw * 0.01) if before else GO
        if self.loop.clock_time() < self._away_until:
            self.witness.counts["away"] += 1
            return Fate(Kind.REFUSED, 0.001) if before else Fate(Kind.LOST)
        mix = self.mix
        if draw < mix.dies:
            self.witness.counts["kills"] += 1
            return Fate(Kind.DIES)
        draw -= mix.dies
        if (
            point == "journal.append_many:after"
            and self.witness.intended_last
            and draw < mix.freezes_at_intent
        ):
            # Its intent is durable, it has not looked at the clock: where a sleeper is most dangerous.
            self.witness.counts["freezes"] += 1
            return Fate(Kind.FREEZES, 70.0)
        if draw < mix.freezes:
            self.witness.counts["freezes"] += 1
            return Fate(Kind.FREEZES, chance.choice(MANY_S))
        draw -= mix.freezes
        if before and draw < mix.refused:
            self.witness.counts["refused by the store"] += 1
            return Fate(Kind.REFUSED, 0.001)
        if not before and draw < mix.lost:
            self.witness.counts["store reply lost"] += 1
            return Fate(Kind.LOST)
        if before:
            return Fate(Kind.SLOW, chance.choice((0.05, 0.2, 1.0, 5.0)) * mix.latency_s)
        return GO

    def milder_fate(self, point: str) -> Fate:
        """For those who are not workers: the store fails them, and they live to ask again."""
        fate = self._fate(point)
        return GO if fate.kind in {Kind.DIES, Kind.FREEZES} else fate

    def at_point(self, process: SimulatedProcess, point: Point, _tool: str) -> None:
        """The process may die here; what it still does before its next wait, nobody hears."""
        self.witness.counts[f"at {point}"] += 1
        if not self.calm and self.chance.random() < self.mix.dies_at_point:
            self.witness.counts["kills"] += 1
            process.kill()
