"""What a process does now and then for everybody: it says that it is there, buries its dead neighbours, fires
schedules, and sweeps.

No job waits for it: a lease that has run out can be claimed as it is. The sweep does the bookkeeping for jobs that
nobody here has code for. Every process fires and sweeps; two at once
share the work.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.engine.external_work import ExternalWork
from holdfast.engine.host_processes import Processes
from holdfast.engine.recovery import LastSweep, Rules, prove_dead, remember, sweep_jobs
from holdfast.engine.schedules import ScheduleRewind, fire_due
from holdfast.engine.telemetry import SILENT, Telemetry
from holdfast.errors import HoldfastError
from holdfast.model.suspicion import is_suspect
from holdfast.model.time import SECOND
from holdfast.model.work import PREFERENCE_US
from holdfast.model.worker_identity import identity_in, is_dead, worker_name
from holdfast.store.clock import Clock
from holdfast.store.contract import Store
from holdfast.worker.heartbeat import WorkerHeartbeat

SWEEP_EVERY_US: Final = 30 * SECOND
log = logging.getLogger("holdfast.process")


class Neighbours:
    """The other processes of this host, as far as they can be proven dead."""

    def __init__(self, processes: Processes) -> None:
        self.processes = self._processes = processes

    def my_name(self, label: str) -> str:
        here = self._processes.here()
        return f"{label}-{os.getpid()}" if here is None else worker_name(label, here)

    def my_identity(self) -> str | None:
        """A word for this process and no other, ever; None where the host cannot tell processes apart."""
        here = self._processes.here()
        return None if here is None else worker_name("", here)

    def is_dead(self, worker: str) -> bool:
        here, who = self._processes.here(), identity_in(worker)
        return here is not None and who is not None and is_dead(who, here, self._processes.seen(who.pid))

    async def bury(self, store: Store) -> None:
        """The leases of the dead are over; their jobs are there to be claimed."""
        for name in await prove_dead(store, self._processes):
            log.info("worker %s is dead: its jobs are released", name)


class Maintenance:
    """Call `go` every few seconds. `last` is the last sweep of this process; the last one of any process that found
    something is in the store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        neighbours: Neighbours,
        rules: Rules,
        chance: Callable[[], float],
        meter: Telemetry = SILENT,
        herald: WorkerHeartbeat | None = None,
        capabilities: Sequence[str] = (),
        leaves_suspects: bool = False,
    ) -> None:
        """`leaves_suspects`: this process cannot run a job alone, and says so of those that it leaves to others."""
        self.serving = True
        """Whether this process is a worker. One that only drives jobs of its own is not listed, fires no schedules and
        does not sweep; it does free what dead processes of its host held."""
        self.unwanted: Sequence[str] = ()
        """Kinds of work for our capabilities that no agent of the type they prefer has taken for a while."""
        self.last: LastSweep | None = None
        self._store = store
        self._clock = clock
        self._neighbours = neighbours
        self._rules = rules
        self._meter = meter
        self._herald = herald
        self._capabilities = capabilities
        self._leaves_suspects = leaves_suspects
        self._outwork = ExternalWork(store, clock, chance)
        self._rewind = ScheduleRewind(store)
        self._due_at = clock.tick_us() + SWEEP_EVERY_US

    async def go(self) -> None:
        """This process is listed, the dead are buried, what is due by the clock has begun, and, if it is time, what the
        dead left is in order. A store that is away is for next time."""
        try:
            await self._store.clock.sync()
            if self._herald is not None and self.serving:
                await self._herald.beat()
            await self._neighbours.bury(self._store)
            if self.serving:
                await self._rewind.go()
                await fire_due(self._store)
            await self._outwork.tidy()
            if self._capabilities:
                self.unwanted = await self._store.work.unpreferred(self._capabilities, grace_us=PREFERENCE_US)
            if self.serving and self._clock.tick_us() >= self._due_at:
                self._due_at = self._clock.tick_us() + SWEEP_EVERY_US
                await self._sweep()
        except HoldfastError as error:
            log.warning("maintenance round failed: %s", error)
            self._meter.refused(error)

    async def _sweep(self) -> None:
        stats, swept = await sweep_jobs(self._store, self._clock, self._rules)
        for head in (
            one.head for one in swept if self._leaves_suspects and is_suspect(one.head.takeovers + 1)
        ):
            log.warning(
                "job %s (%s) lost its worker %d times without progress: it waits for a worker that can isolate it. "
                "Start one: holdfast worker YOUR_MODULE. See: holdfast job %s",
                *(head.job_id, head.kind, head.takeovers + 1, head.job_id),
            )
        self._meter.swept(stats)
        self.last = LastSweep(at=self._clock.wall_us(), by=self._rules.by or "", stats=stats)
        if stats.expired_found:
            log.info(
                "jobs whose worker died: %d; requeued %d, moved to the dead-letter queue %d",
                stats.expired_found,
                stats.recovered,
                stats.failed,
            )
            await remember(self._store, self.last)
