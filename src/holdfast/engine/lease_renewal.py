"""Lease renewal: one lease per worker, kept by beats, for all the jobs that it runs.

The problem
    A worker that is gone must lose its jobs soon; one that is merely busy must keep them. Leases per job, renewed by
    the event loop that also runs the jobs' code, fail both: code that blocks the loop loses every lease, a thousand
    jobs cost a thousand renewals, and a database server whose clock is set expires them all.

The method
    A worker has one row. Every few seconds it changes a number in it, the beat, and reads the rows of the others in the
    same round trip. A row that has not changed for the lease time, on the observer's monotonic clock, is declared
    expired by compare-and-set, and its jobs are claimable (`model.worker_lease`). Beats come from a thread with its own
    connection (`worker.renewal_thread`), or from a task of the loop where time is virtual.

What could go wrong
    The worker is frozen for longer than its lease: others have declared it expired. Its next beat finds no row; it
    takes a new lease, and keeps those of its jobs that no other worker has claimed. The rest are lost: their runs end,
    and the store rejects their writes by their fences.
    A run ends without having released its job (its journal cannot be read, the store was unavailable): with the next
    beat its job gets its own lease, for the lease time.
    The store is unavailable: a beat fails, and no call is started any more when the last successful beat is older than
    the lease less a margin. The time counts from *before* the request to the store, on the monotonic clock.
    Another process has taken the worker's name: this one has lost everything and claims nothing any more.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec

from holdfast.engine.telemetry import SILENT, Telemetry
from holdfast.errors import Fenced, Unavailable
from holdfast.model.lease import LEASE_TTL_US, RENEW_EVERY_US, UNTIL_EXPIRED_US, may_fire
from holdfast.model.worker_lease import LeaseObserver, WorkerLease
from holdfast.store.clock import Clock
from holdfast.store.ports.leases import BeatResult, HeldLease, Leases


class HeldJobs(Protocol):
    """A run, as the renewal of its lease sees it."""

    @property
    def held(self) -> HeldLease: ...

    def lose(self, error: Fenced) -> None:
        """Called when the job belongs to another worker."""
        ...


Deliver = Callable[[Callable[[], None]], None]
"""Calls a function on the loop that runs the jobs."""


def _call(function: Callable[[], None]) -> None:
    """Delivery on that loop itself: a plain call."""
    function()


class LeaseRenewal:
    """Keeps the lease of one worker. All methods but `beat` are called on the loop that runs the jobs; `beat` may run
    on another thread, with its own store."""

    def __init__(
        self,
        worker: str,
        clock: Clock,
        new_incarnation: Callable[[], str],
        *,
        identity: str = "",
        ttl_us: int = LEASE_TTL_US,
        meter: Telemetry = SILENT,
    ) -> None:
        self.ttl_us = ttl_us
        self.every_us = ttl_us * RENEW_EVERY_US // LEASE_TTL_US
        self.has_started = False
        """Whether the worker has had a lease. The first is taken on the loop that runs the jobs, later
        ones by beats."""
        self.is_replaced = False
        """Whether another process has taken this worker's name."""
        self._clock = clock
        self._new_incarnation = new_incarnation
        self._meter = meter
        self._stop_ahead_us = ttl_us // 6
        self._lease = WorkerLease(worker, "", identity, ttl_us)
        self._beat_at: int | None = None
        self._runs: dict[str, HeldJobs] = {}
        self._abandoned: list[HeldLease] = []
        self._guard = threading.Lock()
        self._observer = LeaseObserver(ttl_us // 2)
        self._closed = False
        self._beating = asyncio.Lock()

    @property
    def incarnation(self) -> str | None:
        """The incarnation of the current lease; None before the first."""
        return self._lease.incarnation or None

    def keep(self, run: HeldJobs) -> None:
        """Adds a run to those that the lease covers."""
        with self._guard:
            self._runs[run.held.job_id] = run

    def let_go(self, run: HeldJobs) -> None:
        with self._guard:
            if self._runs.get(run.held.job_id) is run:
                del self._runs[run.held.job_id]

    def abandon(self, run: HeldJobs) -> None:
        """Called for a run that has ended without releasing its job: no run of this process continues it, and after
        the lease time other workers may claim it."""
        self.let_go(run)
        with self._guard:
            self._abandoned.append(run.held)

    def covers(self, job_id: str) -> bool:
        """Whether a call may still be started for this job."""
        return job_id in self._runs and self.is_fresh

    @property
    def is_fresh(self) -> bool:
        """Whether calls may be started under the lease."""
        beat_at = self._beat_at
        return beat_at is not None and may_fire(
            asked_at=beat_at,
            now=self._clock.tick_us(),
            ttl_us=self.ttl_us,
            stop_ahead_us=self._stop_ahead_us,
        )

    async def start(self, leases: Leases) -> tuple[WorkerLease, ...]:
        """Takes a new lease. Returns the leases of the other workers. Unavailable, if the store is."""
        lease = msgspec.structs.replace(self._lease, incarnation=self._new_incarnation(), beat=1)
        asked_at = self._clock.tick_us()
        # Before the reply: if that is lost, the next beat finds this lease, not another process's.
        self._lease = lease
        beat = await leases.start(lease)
        self._beat_at, self.has_started = asked_at, True
        await self._observe(leases, beat, asked_at)
        return beat.others

    async def beat(self, leases: Leases, deliver: Deliver = _call) -> tuple[WorkerLease, ...] | None:
        """Renews the lease, or takes a new one; declares expired leases of others as expired. Returns the leases of
        the others; None, if the store is unavailable, and the next beat tries again. On another thread, `deliver`
        calls back on the loop of the runs that are lost."""
        async with self._beating:
            return await self._beat(leases, deliver)

    async def _beat(self, leases: Leases, deliver: Deliver) -> tuple[WorkerLease, ...] | None:
        if self.is_replaced or self._closed:
            return ()
        asked_at = self._clock.tick_us()
        lease = msgspec.structs.replace(self._lease, beat=self._lease.beat + 1)
        self._lease = lease  # before the reply: a beat after a lost reply must differ
        try:
            beat = await leases.beat(lease)
            if beat.mine is None:
                others = await self.start(leases)
                await self.renew_runs(leases, deliver)
                return others
            if beat.mine.incarnation != lease.incarnation:
                self._give_up(deliver)
                return beat.others
            self._beat_at = asked_at
            await self._observe(leases, beat, asked_at)
            await self._let_run_out(leases)
        except Unavailable as error:
            self._meter.record_refusal(error)
            return None
        return beat.others

    async def _observe(self, leases: Leases, beat: BeatResult, asked_at: int) -> None:
        answered_at = self._clock.tick_us()
        for lease in self._observer.observe(beat.others, asked_at=asked_at, answered_at=answered_at):
            await leases.expire(lease.worker, lease.incarnation, lease.beat)
            self._observer.forget(lease.worker)

    async def _let_run_out(self, leases: Leases) -> None:
        """Gives abandoned jobs their own lease, which ends by itself: not at once, so that a job which no worker can
        run is not claimed again and again."""
        with self._guard:
            abandoned = list(self._abandoned)
        if abandoned:
            await leases.renew(abandoned, self.ttl_us)
            with self._guard:
                del self._abandoned[: len(abandoned)]

    async def renew_runs(self, leases: Leases, deliver: Deliver = _call) -> None:
        """Renews the jobs of a worker whose lease was declared expired: it keeps those that no other worker has
        claimed, and loses the rest. Jobs that were granted while it took a new lease are renewed as well."""
        with self._guard:
            runs = dict(self._runs)
        if not runs:
            return
        renewed = await leases.renew([run.held for run in runs.values()], UNTIL_EXPIRED_US)
        self._lose(
            {job_id: run for job_id, run in runs.items() if job_id not in renewed}, "was lost", deliver
        )

    def _give_up(self, deliver: Deliver) -> None:
        self.is_replaced = True
        with self._guard:
            runs = dict(self._runs)
        self._lose(runs, f"went to another process that is named {self._lease.worker!r}", deliver)

    def _lose(self, runs: dict[str, HeldJobs], why: str, deliver: Deliver) -> None:
        def lose() -> None:
            for job_id, run in runs.items():
                if self._runs.get(job_id) is run:
                    run.lose(Fenced(f"the lease of job {job_id} {why}"))

        if runs:
            deliver(lose)

    def next_beat_us(self) -> int:
        """How long until the next beat: its interval, or less if a lease of another worker may expire before."""
        expiry = self._observer.next_expiry()
        if expiry is None:
            return self.every_us
        # Not at once: an expiry that the store rejected is tried again, and the store may be unavailable.
        return min(self.every_us, max(self.every_us // 20, expiry - self._clock.tick_us()))

    async def keep_on(self, leases: Leases, stop: asyncio.Event) -> None:
        """Beats on this loop, until `stop` is set: for a store in memory, which no other process shares, and where
        time is virtual, for which no other thread can wait. All other workers beat from `RenewalThread`."""
        while not stop.is_set():
            try:
                async with asyncio.timeout(self.next_beat_us() / 1_000_000):
                    await stop.wait()
            except TimeoutError:
                await self.beat(leases)

    async def release(self, leases: Leases) -> None:
        """Ends the lease; its jobs are claimable at once. The next beat takes a new one."""
        if self.incarnation is not None and not self.is_replaced:
            self._beat_at = None
            await leases.expire(self._lease.worker, self._lease.incarnation)

    async def close(self, leases: Leases) -> None:
        """Ends the lease for good. Jobs that the worker still held are claimable at once."""
        self._closed = True
        await self.release(leases)
