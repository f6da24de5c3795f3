"""One process that drives jobs.

    claim what there is room for → run each → claim again

Between claims it waits for a hint that something changed, or a second, whichever is first; hints make it quick, the
second makes it right. It never holds more jobs than it has room for, takes only kinds it has code for, and goes by age
now and then, so that nobody waits for ever behind those with more weight.

A worker that does not serve claims only the jobs that it was told to drive, their descendants, and what stands before
them in their sessions: `await agent(…)` in a script must not take anybody else's job, which would end with the script.

Draining: no more claims; each run finishes the calls that are under way and gives its job back at that boundary, which
costs the next worker a replay and nothing else. Calls that take too long are cut off, all but those that are unsafe to
repeat: cut off, they would need a person, so they get the time that they were declared to take.
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
from holdfast.engine.log_context import about
from holdfast.engine.runner_config import RunnerConfig
from holdfast.errors import HoldfastError, InvalidSetting, NotFound, Unavailable
from holdfast.model.lease import Grant, by_age
from holdfast.model.suspicion import SUSPECT_AT
from holdfast.store.ports.leases import WORKERS, ClaimAsk
from holdfast.worker.attempt_log import log_attempt
from holdfast.worker.renewal_thread import RenewalThread
from holdfast.worker.watchdog import Watchdog

POLL_S: Final = 2.5
"""How late a hint may be before the queue is asked without one. With maintenance and presence, an idle worker asks its
database less than once a second."""

MAIL_POLL_S: Final = 10.0
SOON_S: Final = 0.001
DRAIN_S: Final = 30.0
SHORT: Final = 32
"""A journal of so many events is worth reading together with others."""
log = logging.getLogger("holdfast.worker")


class Isolation(Protocol):
    """Drives suspects in child processes."""

    @property
    def has_room(self) -> bool:
        """Whether another child may be started now."""
        ...

    async def drive(self, run: JobRun) -> None:
        """The job of this run, which has driven nothing, is handed to a child process; returns when that has ended and
        its end is written down."""
        ...

    def drain(self, *, at_once: bool) -> None:
        """Every child gives its job back: at the next boundary, or at once."""
        ...


class Worker:
    """Runs until `drain` is called. `new_token` names claims, so that a lost reply finds the same grants."""

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
        """`also` names kinds to take besides those there is code for by name: work that nobody else has wanted. Without
        `serving` it claims nothing before `drive` names a job, or `serve` is called. `isolation` drives suspects, if
        the desk hands them over; a worker that `leaves_suspects` claims none, unless it is told to drive them."""
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
        """The jobs that somebody in this process waits for, each with how many do."""
        self._has_left = False
        """Whether somebody has stopped waiting for a job that is not over."""
        self._runs: dict[str, JobRun] = {}
        """By the topic of hints about its mail."""
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
        """Jobs are driven until somebody drains this worker; afterwards it holds nothing."""
        stopped = asyncio.Event()
        renewing = asyncio.create_task(self._renew(stopped), name="holdfast-renew")
        listening = asyncio.create_task(self._listen(), name="holdfast-listen")
        hearing = self._hearing = asyncio.create_task(self._hear(), name="holdfast-hear")
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
            with contextlib.suppress(Unavailable):  # then others declare it expired
                await self._renewal.close(self._config.store.leases)
            if self._watchdog is not None:
                self._watchdog.stop()

    def drain(self, *, at_once: bool = False) -> None:
        """No more claims; what runs is finished or given back. `at_once`, or said twice: given back where it stands."""
        if at_once or self._draining.is_set():
            self._hurry.set()
        self._draining.set()
        self._give_back()
        self._room.set()
        self._look.set()

    def serve(self) -> None:
        """From now on every job of its queues and kinds is claimed."""
        self._serving = True
        if self._renewal_thread is not None:
            self._renewal_thread.look()
        self._look.set()

    @contextmanager
    def drive(self, job_id: str) -> Iterator[None]:
        """In the block this job and its descendants are claimed. If it ends with an error (the caller was cancelled,
        the job is held), what still runs of them is given back."""
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
            self._roots += Counter()  # drops those that nobody waits for any more

    def is_driving(self, job_id: str) -> bool:
        """Whether this worker claims the job, or would."""
        return self._serving or job_id in self._roots

    async def _renew(self, stopped: asyncio.Event) -> None:
        """The lease is renewed until the worker has stopped, by a thread of its own if there is one."""
        if self._renewal_thread is None:
            await self._renewal.keep_on(self._config.store.leases, stopped)
            return
        async with self._renewal_thread.renewing(self._renewal, lazily=not self._serving):
            await stopped.wait()

    async def _maintain(self) -> None:
        """The maintenance loop runs beside the jobs, which do not wait for it."""
        if self._maintenance is not None:
            await self._maintenance()

    # ── claiming ──────────────────────────────────────────────────────────────────────────────────

    async def _claim(self) -> bool:
        """Whether it is worth asking again at once: not when there was less than there was room for. What has come
        since is hinted at, and hints are kept for the next wait."""
        if self._has_left and not self._serving:
            await self._give_back_left()
        if not self._serving and not self._roots:
            return False
        free = self._concurrency - len(self._tasks)
        if free <= 0:
            self._room.clear()
            return False
        if not await self._has_lease():
            return False
        if self._token is None:
            # Kept with the token: after a lost reply the store gives what it gave the first time.
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
            # The lease was lost while the claim was on its way. What cannot be renewed now, others may take.
            with contextlib.suppress(Unavailable):
                await self._renewal.renew_runs(self._config.store.leases)
        await self._read_for(runs)
        for run in runs:
            self._runs[_topic(run)] = run
            task = asyncio.create_task(self._drive(run), name=f"holdfast-job-{run.grant.job_id}")
            self._tasks.add(task)
            task.add_done_callback(self._over)
        if runs:
            await self._catch_up(runs)
        return len(grants) == free

    async def _has_lease(self) -> bool:
        """The worker has a lease under which calls may be started. It takes the first before its first claim."""
        if self._renewal.is_replaced:
            msg = f"another process has taken over the name of worker {self.name!r}"
            raise InvalidSetting(
                msg, hint="Names of workers must be unique: give each process its own, or none."
            )
        if self._renewal.is_fresh:
            return True
        if self._renewal.has_started:
            if self._renewal_thread is not None:  # it beats as soon as it can, and what it frees is hinted at
                self._renewal_thread.look()
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
            self._renewal_thread.look()  # at the other workers of this host
        return True

    def _make_ask(self, token: str, free: int) -> ClaimAsk:
        has_room = not self._leaves_suspects and (self._isolation is None or self._isolation.has_room)
        return ClaimAsk(
            worker=self.name,
            token=token,
            queues=self._queues,
            kinds=(*self._config.programs, *self._also()),
            limit=free,
            incarnation=self._renewal.incarnation,
            by_age=by_age(self._claims),
            roots=None if self._serving else tuple(self._roots),
            suspect_at=None if has_room else SUSPECT_AT,
        )

    async def _give_back_left(self) -> None:
        """Runs that nobody in this process waits for any more wind down."""
        self._has_left = False
        for run in list(self._runs.values()):
            try:
                if not await self._is_wanted(run.grant):
                    run.wind_down()
            except (NotFound, Unavailable) as error:
                log.warning("job %s continues on this worker: %s", run.grant.job_id, error)

    async def _is_wanted(self, grant: Grant) -> bool:
        """Whether the job, an ancestor of it, or a job behind it in its session is being waited for."""
        if not self._roots or grant.job_id in self._roots:
            return bool(self._roots)
        jobs = self._config.store.jobs
        if grant.session_id is not None:
            behind = [await jobs.get(root) for root in self._roots]
            return any(
                (one.namespace, one.session_id) == (grant.namespace, grant.session_id) for one in behind
            )
        above = (await jobs.get(grant.job_id)).parent_job_id
        while above is not None and above not in self._roots:
            above = (await jobs.get(above)).parent_job_id
        return above is not None

    async def _catch_up(self, runs: Sequence[JobRun]) -> None:
        """Hints about mail that came after the claim, before anybody listened, are heard once the runs have begun."""
        missed = await self._config.store.wakeups.wait(frozenset(map(_topic, runs)), 0)
        if missed:
            asyncio.get_running_loop().call_later(SOON_S, self._poke, missed)

    async def _read_for(self, runs: Sequence[JobRun]) -> None:
        """Short journals that did not come with the claim are read together; whoever has none by then reads it
        himself."""
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
        with about(job_id=run.grant.job_id, fence=run.grant.fence):
            await self._driven(run)

    async def _driven(self, run: JobRun) -> None:
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
            # Its lease runs out, and another worker tries; a job that does this again and again runs alone.
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
            if self._runs.get(_topic(run)) is run:  # a job that slept a moment may be ours again already
                del self._runs[_topic(run)]

    def _note_failure(self, run: JobRun, error: Exception) -> None:
        """This run could not be driven, and still has its lease."""

    def _remember(self, run: JobRun) -> None:
        """A job that sleeps for a moment is looked at on time; one that sleeps for long is found by asking."""
        left_us = run.sleeps_for_us()
        if left_us is not None and left_us < POLL_S * 1_000_000:
            loop = asyncio.get_running_loop()
            loop.call_later(max(0, left_us) / 1_000_000 + SOON_S, self._look.set)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.set()

    async def _pause(self) -> None:
        """There is room, or a hint, or it is time to ask without one."""
        if not self._room.is_set():
            await self._room.wait()
            return
        if self._hearing is not None and self._hearing.done():
            self._hearing.result()  # nobody would ask any more: whatever ended it ends this worker
        await self._look.wait()
        self._look.clear()

    async def _hear(self) -> None:
        """The queue is worth a look whenever there was a hint, and now and then without one. One task for all pauses: a
        worker that is woken has nothing to set up or to take down."""
        topics = frozenset([*(f"queue:{queue}" for queue in self._queues), WORKERS])
        try:
            while True:
                if WORKERS in await self._config.store.wakeups.wait(topics, POLL_S) and self._renewal_thread:
                    self._renewal_thread.look()
                self._look.set()
        finally:
            self._look.set()

    async def _listen(self) -> None:
        """Letters to jobs that run here are read soon: when there is a hint, and now and then without one."""
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
        """Every run has ended or given its job back: at a boundary, or after a while, or at once in a hurry."""
        hurried = asyncio.ensure_future(self._hurry.wait())
        ending = asyncio.ensure_future(self._all_over())
        self._give_back()  # and those that were granted meanwhile
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
        """Every run is on its way out: at the next boundary, or in a hurry at once."""
        for run in list(self._runs.values()):
            run.release() if self._hurry.is_set() else run.wind_down()
        if self._isolation is not None:
            self._isolation.drain(at_once=self._hurry.is_set())

    async def _all_over(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)


def _topic(run: JobRun) -> str:
    return f"job:{run.grant.job_id}"
