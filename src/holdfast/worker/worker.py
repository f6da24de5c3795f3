"""Worker: one process that claims and runs jobs.

    claim as many jobs as there is room for → run each → claim again

Between claims it waits for a wake-up, or `POLL_S`, whichever is first; wake-ups make it quick, polling makes it right.
It never holds more jobs than it has room for, claims only kinds it has code for, and claims by age now and then, so
that no job waits for ever behind those with a higher priority.

A worker that does not serve claims only the jobs that it is asked to run, their descendants, and the jobs before them
in their sessions: `await agent(…)` in a script must not claim other jobs, whose run would end with the script.

Draining: no more claims; each run finishes the calls in progress and then releases its job, which costs the next
worker a replay and nothing else. Calls that take too long are cut off, except those that are unsafe to repeat: cut
off, they would need a person's decision, so they get the time that they were declared to take.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from holdfast.engine.job_runner import LOST, SUSPECT, JobRun
from holdfast.engine.lease_renewal import LeaseRenewal
from holdfast.engine.log_context import add_context
from holdfast.engine.runner_config import RunnerConfig
from holdfast.errors import HoldfastError, InvalidSetting, NotFound, Unavailable
from holdfast.model.crash_suspects import SUSPECT_AT
from holdfast.model.lease import Grant, takes_oldest
from holdfast.store.ports.leases import WORKERS, ClaimRequest
from holdfast.worker.attempt_log import log_attempt
from holdfast.worker.renewal_thread import RenewalThread
from holdfast.worker.watchdog import Watchdog

POLL_S: Final = 2.5
"""How long a worker waits for a wake-up before it polls the queue. With maintenance and presence, an idle worker
queries its database less than once a second."""

MAIL_POLL_S: Final = 10.0
SOON_S: Final = 0.001
DRAIN_S: Final = 30.0
SHORT: Final = 32
"""A journal of up to this many events is worth reading together with others."""
log = logging.getLogger("holdfast.worker")


class Isolation(Protocol):
    """Runs suspects in child processes."""

    @property
    def has_room(self) -> bool:
        """Whether another child may be started now."""
        ...

    async def drive(self, run: JobRun) -> None:
        """Hands the job of this run, which has executed nothing, to a child process; returns when the child has ended
        and its end is recorded."""
        ...

    def drain(self, *, at_once: bool) -> None:
        """Makes every child release its job: when its calls in progress have ended, or at once."""
        ...


class Worker:
    """Runs until `drain` is called. `new_token` names claims, so that a claim repeated after a lost reply gets the
    same grants."""

    def __init__(
        self,
        config: RunnerConfig,
        name: str,
        new_token: Callable[[], str],
        *,
        queues: Iterable[str] = ("default",),
        concurrency: int = 16,
        renewal: LeaseRenewal | None = None,
        renewal_thread: RenewalThread | None = None,
        maintenance: Callable[[], Awaitable[None]] | None = None,
        drain_s: float = DRAIN_S,
        watchdog: Watchdog | None = None,
        also: Callable[[], Sequence[str]] = tuple,
        serving: bool = True,
        isolation: Isolation | None = None,
        leaves_suspects: bool = False,
    ) -> None:
        """`also` names kinds to claim besides those of the programs: work items that no preferred agent has taken.
        Without `serving` the worker claims nothing before `drive` names a job, or `serve` is called. `isolation` runs
        suspects, if the configuration isolates them; a worker that `leaves_suspects` claims none, unless `drive` names
        them."""
        self.name = name
        self._config = config
        self._new_token = new_token
        self._queues = tuple(queues)
        self._concurrency = concurrency
        self._renewal = renewal or LeaseRenewal(name, config.clock, new_token, meter=config.meter)
        self._renewal_thread = renewal_thread
        self._maintenance = maintenance
        self._drain_s = drain_s
        self._watchdog = watchdog
        self._also = also
        self._serving = serving
        self._isolation = isolation
        self._leaves_suspects = leaves_suspects
        self._roots: Counter[str] = Counter()
        """The jobs that callers in this process wait for, with the number of callers."""
        self._has_left = False
        """Whether a caller has stopped waiting for a job that has not ended."""
        self._runs: dict[str, JobRun] = {}
        """The runs by the topic of wake-ups about their mail."""
        self._hearing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._claims = 0
        self._token: str | None = None
        self._asked_at = 0
        self._draining = asyncio.Event()
        self._hurry = asyncio.Event()
        self._look = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def work(self) -> None:
        """Runs jobs until `drain` is called; holds nothing afterwards."""
        stopped = asyncio.Event()
        renewing = asyncio.create_task(self._renew(stopped), name="holdfast-renew")
        listening = asyncio.create_task(self._listen(), name="holdfast-listen")
        hearing = self._hearing = asyncio.create_task(self._watch_wakeups(), name="holdfast-hear")
        maintaining = asyncio.create_task(self._maintain(), name="holdfast-maintenance")
        if self._watchdog is not None:
            self._watchdog.start(asyncio.get_running_loop(), self._renewal.ttl_us)
        try:
            while not self._draining.is_set():
                if not await self._claim():
                    await self._pause()
            await self._finish()
        finally:
            listening.cancel()
            hearing.cancel()
            maintaining.cancel()
            stopped.set()
            await asyncio.wait([renewing, listening, hearing, maintaining])
            await self._config.committer.close()
            with contextlib.suppress(Unavailable):  # if so, other workers declare it expired
                await self._renewal.close(self._config.store.leases)
            if self._watchdog is not None:
                self._watchdog.stop()

    def drain(self, *, at_once: bool = False) -> None:
        """Claims no more; runs finish or release their jobs. `at_once`, or a second call: without waiting for the
        calls in progress."""
        if at_once or self._draining.is_set():
            self._hurry.set()
        self._draining.set()
        self._give_back()
        self._room.set()
        self._look.set()

    def serve(self) -> None:
        """Claims every job of its queues and kinds from now on."""
        self._serving = True
        if self._renewal_thread is not None:
            self._renewal_thread.beat_now()
        self._look.set()

    @contextmanager
    def drive(self, job_id: str) -> Iterator[None]:
        """Claims this job and its descendants in the block. If the block ends with an error (the caller was cancelled,
        the job is held), the ones that still run are released."""
        self._roots[job_id] += 1
        self._look.set()
        try:
            yield
        except BaseException:
            self._has_left = True
            self._room.set()
            self._look.set()
            raise
        finally:
            self._roots[job_id] -= 1
            self._roots += Counter()  # drops jobs without callers

    def is_driving(self, job_id: str) -> bool:
        """Whether this worker claims the job, or would."""
        return self._serving or job_id in self._roots

    async def _renew(self, stopped: asyncio.Event) -> None:
        """Renews the lease until the worker has stopped, from the renewal thread if there is one."""
        if self._renewal_thread is None:
            await self._renewal.keep_on(self._config.store.leases, stopped)
            return
        async with self._renewal_thread.renewing(self._renewal, lazily=not self._serving):
            await stopped.wait()

    async def _maintain(self) -> None:
        """Runs the maintenance loop beside the jobs, which do not wait for it."""
        if self._maintenance is not None:
            await self._maintenance()

    # ── claiming ──────────────────────────────────────────────────────────────────────────────────

    async def _claim(self) -> bool:
        """Claims jobs and starts their runs. Returns whether to claim again at once: not if there were fewer jobs than
        room. Jobs that came since cause a wake-up, and wake-ups are kept for the next wait."""
        if self._has_left and not self._serving:
            await self._release_unwanted()
        if not self._serving and not self._roots:
            return False
        free = self._concurrency - len(self._tasks)
        if free <= 0:
            self._room.clear()
            return False
        if not await self._has_lease():
            return False
        if self._token is None:
            # Kept with the token: after a lost reply the store returns the grants of the first time.
            self._token, self._asked_at = self._new_token(), self._config.clock.tick_us()
        ask = self._make_ask(self._token, free)
        try:
            grants = await self._config.store.leases.claim(ask)
        except Unavailable as error:
            log.warning("cannot claim: %s", error)
            self._config.meter.record_refusal(error)
            return False
        self._config.meter.record_claims(grants)
        self._token = None
        self._claims += 1
        runs = [
            JobRun(self._config, grant, covers=self._renewal.covers, asked_at=self._asked_at)
            for grant in grants
        ]
        for run in runs:
            self._renewal.keep(run)
        if runs and ask.incarnation != self._renewal.incarnation:
            # The lease was lost during the claim. Jobs that cannot be renewed now may be claimed by others.
            with contextlib.suppress(Unavailable):
                await self._renewal.renew_runs(self._config.store.leases)
        await self._load_journals(runs)
        for run in runs:
            self._runs[_job_topic(run)] = run
            task = asyncio.create_task(self._drive(run), name=f"holdfast-job-{run.grant.job_id}")
            self._tasks.add(task)
            task.add_done_callback(self._discard_task)
        if runs:
            await self._catch_up(runs)
        return len(grants) == free

    async def _has_lease(self) -> bool:
        """Whether the worker has a lease under which calls may be started. It takes the first before its
        first claim."""
        if self._renewal.is_replaced:
            msg = f"another process has taken over the name of worker {self.name!r}"
            raise InvalidSetting(
                msg, hint="Names of workers must be unique: give each process its own, or none."
            )
        if self._renewal.is_fresh:
            return True
        if self._renewal.has_started:
            if (
                self._renewal_thread is not None
            ):  # it beats as soon as it can; jobs that it frees cause a wake-up
                self._renewal_thread.beat_now()
                return False
            await self._renewal.beat(self._config.store.leases)
            return self._renewal.is_fresh
        try:
            await self._renewal.start(self._config.store.leases)
        except Unavailable as error:
            log.warning("cannot claim: %s", error)
            self._config.meter.record_refusal(error)
            return False
        if self._renewal_thread is not None and self._serving:
            self._renewal_thread.beat_now()  # reads the leases of the other workers of this host
        return True

    def _make_ask(self, token: str, free: int) -> ClaimRequest:
        has_room = not self._leaves_suspects and (self._isolation is None or self._isolation.has_room)
        return ClaimRequest(
            worker=self.name,
            token=token,
            queues=self._queues,
            kinds=(*self._config.programs, *self._also()),
            limit=free,
            incarnation=self._renewal.incarnation,
            by_age=takes_oldest(self._claims),
            roots=None if self._serving else tuple(self._roots),
            suspect_at=None if has_room else SUSPECT_AT,
        )

    async def _release_unwanted(self) -> None:
        """Winds down runs that no caller in this process waits for any more."""
        self._has_left = False
        for run in list(self._runs.values()):
            try:
                if not await self._is_wanted(run.grant):
                    run.wind_down()
            except (NotFound, Unavailable) as error:
                log.warning("job %s continues on this worker: %s", run.grant.job_id, error)

    async def _is_wanted(self, grant: Grant) -> bool:
        """Whether a caller waits for the job, for an ancestor of it, or for a job after it in its session."""
        if not self._roots or grant.job_id in self._roots:
            return bool(self._roots)
        jobs = self._config.store.jobs
        if grant.session_id is not None:
            waited_for = [await jobs.get(root) for root in self._roots]
            return any(
                (job.namespace, job.session_id) == (grant.namespace, grant.session_id) for job in waited_for
            )
        ancestor_id = (await jobs.get(grant.job_id)).parent_job_id
        while ancestor_id is not None and ancestor_id not in self._roots:
            ancestor_id = (await jobs.get(ancestor_id)).parent_job_id
        return ancestor_id is not None

    async def _catch_up(self, runs: Sequence[JobRun]) -> None:
        """Delivers wake-ups about mail that came between the claim and the listening, once the runs have begun."""
        missed = await self._config.store.wakeups.wait(frozenset(map(_job_topic, runs)), 0)
        if missed:
            asyncio.get_running_loop().call_later(SOON_S, self._poke, missed)

    async def _load_journals(self, runs: Sequence[JobRun]) -> None:
        """Reads short journals that did not come with the claim together; a run that has none by then reads its own."""
        short = {run.grant.job_id: run for run in runs if not run.has_journal and run.grant.head_seq <= SHORT}
        if len(short) < 2:
            return
        try:
            journals = await self._config.store.journal.read_many(list(short))
        except Unavailable:
            return
        for job_id, journal in journals.items():
            short[job_id].give_journal(journal)

    async def _drive(self, run: JobRun) -> None:
        with add_context(job_id=run.grant.job_id, fence=run.grant.fence):
            await self._execute(run)

    async def _execute(self, run: JobRun) -> None:
        timed, how = self._config.meter.attempt(run.grant), "broken"
        try:
            how = await run.go()
            if how == SUSPECT and self._isolation is not None:
                await self._isolation.drive(run)
                return
            if how == LOST:
                log.warning("job %s was taken over by another worker: %s", run.grant.job_id, run.why_lost)
            log_attempt(log, run)
            self._remember(run)
        except HoldfastError as error:
            # Its lease expires, and another worker tries; a job that fails like this again and again is isolated.
            log.exception("job %s could not be run (%s)", run.grant.job_id, error.hint)
            self._note_failure(run, error)
        except Exception as error:
            log.exception("job %s could not be run", run.grant.job_id)
            self._note_failure(run, error)
        finally:
            timed.over(how, run.why_lost)
            if run.ended_with is None:
                self._renewal.abandon(run)
            else:
                self._renewal.let_go(run)
            if (
                self._runs.get(_job_topic(run)) is run
            ):  # a job that was suspended shortly may be running here again
                del self._runs[_job_topic(run)]

    def _note_failure(self, run: JobRun, error: Exception) -> None:
        """Hook: this run could not be executed, and still has its lease."""

    def _remember(self, run: JobRun) -> None:
        """Claims on time for a job that is suspended shortly; polling finds the others."""
        left_us = run.sleeps_for_us()
        if left_us is not None and left_us < POLL_S * 1_000_000:
            loop = asyncio.get_running_loop()
            loop.call_later(max(0, left_us) / 1_000_000 + SOON_S, self._look.set)

    def _discard_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.set()

    async def _pause(self) -> None:
        """Waits until there is room, or a wake-up, or it is time to poll."""
        if not self._room.is_set():
            await self._room.wait()
            return
        if self._hearing is not None and self._hearing.done():
            self._hearing.result()  # without it there is no polling: its error ends this worker
        await self._look.wait()
        self._look.clear()

    async def _watch_wakeups(self) -> None:
        """Triggers a claim at every wake-up, and now and then without one. One task for all pauses: to wake a worker
        needs no setup and no cleanup."""
        topics = frozenset([*(f"queue:{queue}" for queue in self._queues), WORKERS])
        try:
            while True:
                if WORKERS in await self._config.store.wakeups.wait(topics, POLL_S) and self._renewal_thread:
                    self._renewal_thread.beat_now()
                self._look.set()
        finally:
            self._look.set()

    async def _listen(self) -> None:
        """Makes runs read their mail soon: at a wake-up, and now and then without one."""
        while True:
            self._poke(
                await self._config.store.wakeups.wait(self._runs.keys(), MAIL_POLL_S) or list(self._runs)
            )

    def _poke(self, topics: Iterable[str]) -> None:
        for topic in topics:
            run = self._runs.get(topic)
            if run is not None:
                run.poke()

    # ── ending ────────────────────────────────────────────────────────────────────────────────────

    async def _finish(self) -> None:
        """Waits until every run has ended or released its job: when its calls have ended, after `drain_s`, or at once
        in a hurry."""
        hurried = asyncio.ensure_future(self._hurry.wait())
        ending = asyncio.ensure_future(self._wait_for_runs())
        self._give_back()  # also runs that were granted meanwhile
        await asyncio.wait([hurried, ending], timeout=self._drain_s, return_when=asyncio.FIRST_COMPLETED)
        for run in list(self._runs.values()):
            if self._hurry.is_set() or not run.is_delicate:
                log.info("job %s is released; another worker continues it", run.grant.job_id)
                run.release()
        await asyncio.wait([hurried, ending], return_when=asyncio.FIRST_COMPLETED)
        self._give_back()
        await ending
        hurried.cancel()

    def _give_back(self) -> None:
        """Makes every run release its job: when its calls in progress have ended, or in a hurry at once."""
        for run in list(self._runs.values()):
            run.release() if self._hurry.is_set() else run.wind_down()
        if self._isolation is not None:
            self._isolation.drain(at_once=self._hurry.is_set())

    async def _wait_for_runs(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)


def _job_topic(run: JobRun) -> str:
    return f"job:{run.grant.job_id}"
