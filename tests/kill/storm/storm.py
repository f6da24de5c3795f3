"""Storm: an application's workers are killed and stopped at random while they work; everything must end as if they
had not been.

The seed decides when, who and how; what the machine makes of it is its own. Classes of trouble:

    poison      jobs that end every process that runs them
    blocking    jobs that block the event loop of their worker for longer than a lease
    stop        workers that are stopped (SIGSTOP) for longer than a lease, and then go on
    pairs       two workers are killed in the same instant
    repeated    workers are killed again before the jobs that they took over have made progress
    supervised  some of the workers are parts of `holdfast up`
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from holdfast.client.embedded import EmbeddedClient
from holdfast.client.records import JobView
from holdfast.errors import Unavailable
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobFilter
from holdfast.model.states import HELD
from holdfast.runtime import open_store
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store
from tests.kill.processes.receiver import Receiver
from tests.kill.processes.stage import Stage
from tests.kill.storm.crew import Crew
from tests.kill.storm.observer import Observer, looking
from tests.kill.storm.person import Person
from tests.kill.storm.receiver import read_log
from tests.kill.storm.report import Report, summarize
from tests.kill.storm.verdict import Submitted, Verdict, judge
from tests.support.project import ROOT

TROUBLES: Final = frozenset({"poison", "blocking", "stop", "pairs", "repeated", "supervised"})
HEALTHY: Final = ("order", "survey")
READY_MIN: Final = 2
"""So many workers are left alone by every kill: a job is taken over by somebody."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a storm is made of."""

    kills: int
    store: str
    seed: int
    without: frozenset[str] = frozenset()
    direct: int = 4
    supervised: int = 2
    open_jobs: int = 24
    kills_per_s: float = 3.0
    lease_s: float = 10.0
    """How long a worker may be silent. Stops and blocking code last longer."""
    stop_every: int = 20
    poison_every: int = 80
    blocking_every: int = 160
    drops: float = 0.015
    """The share of requests that the receiver drops. That a dropped fax did not happen is accepted from a person only
    after its quiet time, which takes half a minute."""
    patience_s: float = 120.0
    """How long nothing at all may happen before what is open is stuck: longer than any quiet time."""

    @property
    def stop_s(self) -> float:
        return 1.5 * self.lease_s

    @property
    def environment(self) -> dict[str, str]:
        return {"HOLDFAST_LEASE_TTL": f"{self.lease_s:g}s", "BLOCK_S": f"{1.5 * self.lease_s:g}"}

    def has(self, trouble: str) -> bool:
        assert trouble in TROUBLES
        return trouble not in self.without


class Storm:
    """Call `run` once."""

    def __init__(self, plan: Plan, stage: Stage, store: Store, observer: Observer, log: Path) -> None:
        self.plan = plan
        self.jobs: list[Submitted] = []
        self.kills = 0
        self.stops = 0
        self._killed_at = 0.0
        self._stage = stage
        self._store = store
        self._client = EmbeddedClient(store, SystemClock(), RandomIds())
        self._observer = observer
        self._log = log
        self._chance = random.Random(plan.seed)
        self._person = Person(stage, self._client, log, plan.seed)
        self._crew = Crew(
            stage,
            direct=plan.direct,
            supervised=plan.supervised if plan.has("supervised") else 0,
            spared=2 if plan.has("blocking") else 0,
        )
        self._resuming: list[asyncio.Task[None]] = []

    async def run(self) -> Report:
        """The storm, then the calm in which everything comes to its end."""
        began = time.monotonic()
        async with self._helpers():
            await self._crew.start()
            self._killed_at = time.monotonic()
            while self.kills < self.plan.kills:
                assert time.monotonic() - self._killed_at < self.plan.patience_s, (
                    "no worker is ready to be killed"
                )
                await self._submit()
                await asyncio.sleep(self._chance.expovariate(self.plan.kills_per_s))
                await self._disturb()
            await asyncio.gather(*self._resuming)
            calm_at = time.monotonic()
            await self._settle()
        verdict = await self._judge()
        ended = time.monotonic()
        return summarize(
            self.plan,
            self._observer,
            self._person,
            verdict,
            jobs=self.jobs,
            kills=self.kills,
            stops=self.stops,
            deaths=self._crew.deaths,
            seconds=(calm_at - began, ended - calm_at),
        )

    @asynccontextmanager
    async def _helpers(self) -> AsyncIterator[None]:
        """Those who work beside the storm. What one of them raises ends it."""
        works = (self._observer.watch(), self._person.work(), self._keep_crew())
        tasks = [asyncio.create_task(work) for work in works]
        me = asyncio.current_task()
        assert me is not None
        for task in tasks:
            task.add_done_callback(lambda task: me.cancel() if not task.cancelled() else None)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    raise outcome

    async def _keep_crew(self) -> None:
        while True:
            await self._crew.replace_dead()
            await asyncio.sleep(0.05)

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────

    async def _submit(self) -> None:
        """As many healthy jobs are open as the plan says, and trouble among them at its times."""
        is_open = {head.job_id for head in self._observer.open.values() if head.reason not in HELD}
        missing = self.plan.open_jobs - sum(job.job_id in is_open for job in self.jobs)
        for _ in range(missing):
            await self._start(HEALTHY[len(self.jobs) % len(HEALTHY)])
        for kind, every in (("poison", self.plan.poison_every), ("blocking", self.plan.blocking_every)):
            due = 2 * (1 + self.kills // every) if self.plan.has(kind) else 0
            if sum(job.kind == kind for job in self.jobs) < due:
                await self._start(kind)

    async def _start(self, kind: str) -> None:
        number = len(self.jobs)
        queue = "slow" if kind == "blocking" else "default"
        job = Submitted(f"{kind}-{number}", kind, number)
        while True:  # a worker that is stopped in a write keeps everybody from writing to a file
            with contextlib.suppress(Unavailable):
                await self._client.submit(kind, {"number": number}, job_id=job.job_id, queue=queue)
                break
        self.jobs.append(job)

    # ── trouble ───────────────────────────────────────────────────────────────────────────────────

    async def _disturb(self) -> None:
        if self.plan.has("stop") and self.kills >= self.stops * self.plan.stop_every:
            await self._stop_one()
        wanted = 2 if self.plan.has("pairs") and self._chance.random() < 0.1 else 1
        await self._observer.look()
        ready = list(self._crew.ready())
        victims = [pid for pid in ready if self._may_be_killed(pid)]
        wanted = min(wanted, len(victims), len(ready) - READY_MIN)
        if wanted < 1:
            return
        chosen = self._chance.sample(victims, wanted)
        held = self._observer.held_by(*chosen)
        at = await self._crew.kill(*chosen)
        self.kills += wanted
        self._killed_at = at
        await self._observer.begin("kill", at, held, *chosen)

    def _may_be_killed(self, pid: int) -> bool:
        """Workers that hold nothing, or take blocking jobs, are killed now and then; all others at any time."""
        held = self._observer.held_by(pid)
        if not self.plan.has("repeated") and any(head.takeovers for head in held):
            return False
        slot = self._crew.slot_of(pid)
        if (slot is not None and slot.spared) or not held:
            return self._chance.random() < 0.03
        return True

    async def _stop_one(self) -> None:
        """A worker is stopped for longer than the lease, and goes on afterwards."""
        await self._observer.look()
        slots = [slot for slot in self._crew.slots if slot.is_ready and not slot.spared]
        slots = [slot for slot in slots if self._observer.held_by(slot.pid)]
        if not slots or len(list(self._crew.ready())) <= READY_MIN + 1:
            return
        slot = self._chance.choice(slots)
        pid, held = slot.pid, self._observer.held_by(slot.pid)
        self._crew.stop(pid)
        self.stops += 1
        at = time.monotonic()
        self._observer.stops.append((at, at + self.plan.stop_s))
        begun = await self._observer.begin("stop", at, held, pid)

        async def resume() -> None:
            await asyncio.sleep(self.plan.stop_s)
            self._observer.forget(begun)
            if slot.pid == pid:
                self._crew.resume(slot)

        self._resuming.append(asyncio.create_task(resume()))

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    async def _settle(self) -> None:
        """Wait until every job has ended or is held; or until nothing has happened for very long."""
        while left := [head for head in self._observer.open.values() if head.reason not in HELD]:
            waits_for_held = len(left) < len(self._observer.open) and all(
                head.reason == "child" for head in left
            )
            patience_s = 5.0 if waits_for_held else self.plan.patience_s
            if time.monotonic() - self._observer.changed_at > patience_s:
                return
            await asyncio.sleep(0.1)

    async def _judge(self) -> Verdict:
        views = {job.job_id: await self._client.get(job.job_id) for job in self.jobs}
        children = [await self._client.get(job_id) for job_id in await self._children(views)]
        verdict = judge(self.jobs, children, views, read_log(self._log))
        verdict.asked_needlessly = sorted(self._person.asked_needlessly)
        try:
            await self._stage.holdfast("db", "verify")
        except AssertionError as error:
            verdict.verify.append(str(error)[-2000:])
        return verdict

    async def _children(self, views: dict[str, JobView]) -> list[str]:
        found, cursor = list[str](), None
        while True:
            page = await self._client.list(JobFilter(), cursor=cursor)
            found += [record.job_id for record in page.items if record.job_id not in views]
            cursor = page.next
            if cursor is None:
                return found


async def run_storm(plan: Plan, folder: Path, address: str) -> Report:
    """Play the storm in this folder, on the store at this address."""
    log = folder / "receiver.jsonl"
    log.touch()
    store = await open_store(address)
    receiver = Receiver()
    stage = Stage(folder, address, receiver, store)
    stage.environment = plan.environment
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.kill.storm.receiver", str(log), str(plan.seed), str(plan.drops)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        receiver.address = (await process.stdout.readline()).decode().strip()
        async with looking(address) as look:
            return await Storm(plan, stage, store, Observer(store, look), log).run()
    finally:
        await stage.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
