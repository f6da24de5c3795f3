"""Maintenance loop: the duties of a process towards its store, each at its own interval.

Workers and the API server run the same loop, and processes that do a duty at the same time share the work. Where all
agents are external there is no worker: then the server alone maintains the store.

No job waits for maintenance. A lease that has expired can be claimed as it is; the sweep does the bookkeeping, and
returns jobs to their queues for which this process has no code. A duty that fails is logged and runs again when it is
next due; the other duties of the round run nevertheless.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.engine.external_work import ExternalWork
from holdfast.engine.host_processes import Processes
from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.engine.recovery import (
    LastSweep,
    RecoveryRules,
    SweepResult,
    prove_dead,
    remember_sweep,
    sweep_jobs,
)
from holdfast.engine.schedules import ScheduleRewind, fire_due
from holdfast.engine.telemetry import SILENT, Telemetry
from holdfast.errors import HoldfastError
from holdfast.model.crash_suspects import is_suspect
from holdfast.model.time import MINUTE, SECOND
from holdfast.model.work import PREFERENCE_US
from holdfast.model.worker_identity import identity_in, is_dead, worker_name
from holdfast.store.clock import Clock
from holdfast.store.contract import Store
from holdfast.worker.heartbeat import WorkerHeartbeat

if TYPE_CHECKING:
    from holdfast.registry.registry import Registry

ROUND_S: Final = 5.0
EVERY_ROUND: Final = 0
SWEEP_EVERY_US: Final = 30 * SECOND
EXPIRY_EVERY_US: Final = 10 * MINUTE
log = logging.getLogger("holdfast.maintenance")


class Duty(msgspec.Struct, frozen=True):
    """One task of the loop. `serving`: only a process that serves has it, not one that only runs its own jobs."""

    name: str
    run: Callable[[], Awaitable[object]]
    every_us: int = EVERY_ROUND
    serving: bool = True


class Neighbours:
    """The other processes of this host, as far as they can be proven dead."""

    def __init__(self, processes: Processes) -> None:
        self.processes = self._processes = processes

    def my_name(self, label: str) -> str:
        here = self._processes.here()
        return f"{label}-{os.getpid()}" if here is None else worker_name(label, here)

    def my_identity(self) -> str | None:
        """An identity of this process that no other process ever has; None where the host cannot identify processes."""
        here = self._processes.here()
        return None if here is None else worker_name("", here)

    def is_dead(self, worker: str) -> bool:
        here, identity = self._processes.here(), identity_in(worker)
        return (
            here is not None
            and identity is not None
            and is_dead(identity, here, self._processes.look_up(identity.pid))
        )

    async def expire_dead(self, store: Store) -> None:
        """Expires the leases of dead processes; their jobs are claimable."""
        for name in await prove_dead(store, self._processes):
            log.info("worker %s is dead: its jobs are released", name)


class Maintenance:
    """Maintenance of a store. `run` is the loop, `run_round` is one pass over the duties that are due. `last` is the
    last sweep of this process (the store's metadata has the last one of any process that found something)."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        neighbours: Neighbours,
        rules: RecoveryRules,
        chance: Callable[[], float],
        meter: Telemetry = SILENT,
        heartbeat: WorkerHeartbeat | None = None,
        *,
        capabilities: Sequence[str] = (),
        leaves_suspects: bool = False,
        registry: Registry | None = None,
        sweep_every_us: int = SWEEP_EVERY_US,
        fires_schedules: bool = True,
        serving: bool = True,
    ) -> None:
        """`leaves_suspects`: this process cannot isolate a job, and logs which suspects it leaves to others.
        `registry` is the registry of external agents that is not in the store. `serving`: this process is a worker or a
        server. A process that only runs its own jobs is not listed, fires no schedules and does not sweep; it does
        expire the leases of dead processes of its host."""
        self._is_serving = serving
        self.unwanted: Sequence[str] = ()
        """Kinds of work items for our capabilities that no agent of the preferred type has taken for a while."""
        self.last: LastSweep | None = None
        self._store = store
        self._clock = clock
        self._neighbours = neighbours
        self._rules = rules
        self._meter = meter
        self._capabilities = capabilities
        self._leaves_suspects = leaves_suspects
        self._registry = registry
        self._work = ExternalWork(store, clock, chance)
        self._rewind = ScheduleRewind(store)
        duties = [
            Duty("store clock", store.clock.sync, serving=False),
            Duty("heartbeat", heartbeat.beat) if heartbeat is not None else None,
            Duty("leases of dead processes", self._expire_dead, serving=False),
            # Workers alone fire schedules: without a worker, jobs that no process has code for would pile up.
            Duty("schedules", self._fire_schedules) if fires_schedules else None,
            Duty("unclaimed work", self._end_unclaimed, serving=False),
            Duty("preferred work", self._warn_about_unclaimed, serving=False) if capabilities else None,
            Duty("sweep", self.sweep, sweep_every_us),
            Duty("registry", self.forget_agents, EXPIRY_EVERY_US),
            Duty("response cache", store.cache.drop_expired, EXPIRY_EVERY_US),
        ]
        self.duties: Final = tuple(duty for duty in duties if duty is not None)
        self._due_at = {duty.name: clock.tick_us() + duty.every_us for duty in self.duties}

    async def run(self) -> None:
        """Runs a round every few seconds, until the task is cancelled."""
        while True:
            await sleep_on_loop(ROUND_S)
            await self.run_round()

    def serve(self) -> None:
        """From now on this process is a worker or a server."""
        self._is_serving = True

    async def run_round(self) -> None:
        """Runs every duty that is due. One that fails runs again when it is next due."""
        failed: list[str] = []
        for duty in self.duties:
            if (duty.serving and not self._is_serving) or self._clock.tick_us() < self._due_at[duty.name]:
                continue
            self._due_at[duty.name] = self._clock.tick_us() + duty.every_us
            try:
                await duty.run()
            except HoldfastError as error:
                failed.append(f"{duty.name}: {error}")
                self._meter.record_refusal(error)
            except Exception:
                log.exception("maintenance round failed: %s", duty.name)
        if failed:
            log.warning("maintenance round failed: %s", "; ".join(failed))

    async def _expire_dead(self) -> None:
        await self._neighbours.expire_dead(self._store)

    async def _fire_schedules(self) -> None:
        await self._rewind.go()
        await fire_due(self._store)

    async def _end_unclaimed(self) -> None:
        ended = await self._work.tidy()
        if ended:
            log.info("work that was not begun in time, or that was cancelled meanwhile: %d", ended)

    async def _warn_about_unclaimed(self) -> None:
        self.unwanted = await self._store.work.find_unpreferred(self._capabilities, grace_us=PREFERENCE_US)

    async def forget_agents(self) -> None:
        """Removes external agents from the registry that were silent for a day."""
        from holdfast.registry.registry import Registry
        from holdfast.registry.store_registry import StoreEntries

        for record in await self._store.namespaces.list():
            await Registry(StoreEntries(self._store, record.namespace), self._clock.wall_us).forget()
        if self._registry is not None:
            await self._registry.forget()

    async def sweep(self) -> list[SweepResult]:
        """Returns jobs with an expired lease to their queues, or holds them as dead letters. Returns these jobs."""
        stats, swept = await sweep_jobs(self._store, self._clock, self._rules)
        for result in swept:
            self._log_lost(result)
        self._meter.record_sweep(stats)
        self.last = LastSweep(at=self._clock.wall_us(), by=self._rules.by or "", stats=stats)
        if stats.expired_found:
            log.info(
                "jobs whose worker died: %d; requeued %d, moved to the dead-letter queue %d",
                stats.expired_found,
                stats.recovered,
                stats.failed,
            )
            await remember_sweep(self._store, self.last)
        return swept

    def _log_lost(self, result: SweepResult) -> None:
        head = result.head
        if result.dead:
            log.warning(
                "job %s (%s) is a dead letter: it lost its worker %s, and it was not the first. See: holdfast job %s",
                *(head.job_id, head.kind, head.lease_owner, head.job_id),
            )
        elif self._leaves_suspects and is_suspect(head.takeovers + 1):
            log.warning(
                "job %s (%s) lost its worker %d times without progress: it waits for a worker that can isolate it. "
                "Start one: holdfast worker YOUR_MODULE. See: holdfast job %s",
                *(head.job_id, head.kind, head.takeovers + 1, head.job_id),
            )
