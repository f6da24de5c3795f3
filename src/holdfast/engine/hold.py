"""Keeping leases: renew behind, stop ahead, let go at once when one is lost.

All jobs that a process holds are renewed together, every ten seconds for thirty. The count runs from *before* the store
was asked, on the clock that does not jump: whatever the store granted, it granted later than that. In the last seconds
before a lease could be over nothing is started any more; that margin is for what is already on its way.

A lease that turns out to be lost ends the run that it covered. What the run was doing outside cannot be called back;
what it would write is refused by its fence.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from holdfast.engine.meter import SILENT, Meter
from holdfast.errors import Fenced, Unavailable
from holdfast.model.lease import LEASE_TTL_US, RENEW_EVERY_US, may_fire
from holdfast.store.clock import Clock
from holdfast.store.ports.leases import Held, Leases


class Holding(Protocol):
    """A run as the keeper of its lease sees it."""

    @property
    def held(self) -> Held: ...

    def lose(self, error: Fenced) -> None:
        """The job is somebody else's."""
        ...


class Keeper:
    """Renews the leases of all runs of this process."""

    def __init__(
        self, leases: Leases, clock: Clock, *, ttl_us: int = LEASE_TTL_US, meter: Meter = SILENT
    ) -> None:
        self._leases = leases
        self._meter = meter
        self._clock = clock
        self.ttl_us = ttl_us
        self.every_us = ttl_us * RENEW_EVERY_US // LEASE_TTL_US
        self._stop_ahead_us = ttl_us // 6
        self._asked_at: dict[str, int] = {}
        self._runs: dict[str, Holding] = {}

    def keep(self, run: Holding, asked_at: int) -> None:
        """The run's lease was asked for at this tick, and is renewed from now on."""
        self._runs[run.held.job_id] = run
        self._asked_at[run.held.job_id] = asked_at

    def let_go(self, run: Holding) -> None:
        if self._runs.get(run.held.job_id) is run:
            del self._runs[run.held.job_id], self._asked_at[run.held.job_id]

    def covers(self, job_id: str) -> bool:
        """Whether something may still be started for this job."""
        asked_at = self._asked_at.get(job_id)
        return asked_at is not None and may_fire(
            asked_at=asked_at,
            now=self._clock.tick_us(),
            ttl_us=self.ttl_us,
            stop_ahead_us=self._stop_ahead_us,
        )

    async def renew(self) -> None:
        """Every lease is renewed, or its run is over. A store that is away is asked again next time."""
        runs = dict(self._runs)
        if not runs:
            return
        asked_at = self._clock.tick_us()
        try:
            still = await self._leases.renew([run.held for run in runs.values()], self.ttl_us)
        except Unavailable as error:
            self._meter.refused(error)
            return
        for job_id, run in runs.items():
            if self._runs.get(job_id) is not run:
                continue
            if job_id in still:
                self._asked_at[job_id] = asked_at
            else:
                run.lose(Fenced(f"the lease of job {job_id} was lost"))

    async def keep_on(self, stop: asyncio.Event) -> None:
        """Renewals at their times, until told to stop."""
        while not stop.is_set():
            try:
                async with asyncio.timeout(self.every_us / 1_000_000):
                    await stop.wait()
            except TimeoutError:
                await self.renew()
