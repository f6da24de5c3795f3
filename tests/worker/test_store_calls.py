"""What the common things cost in calls of the store. The figures may fall, and are then lowered; they do not rise.

Every write call is one commit, so these are commits and round trips, counted instead of timed: the same on every
machine.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import apsw
import pytest

from holdfast.engine.execution import Execution
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.runner_config import RunnerConfig
from holdfast.model.jobs import JobDraft
from holdfast.model.states import Status
from holdfast.store.interceptor import Call, InterceptedStore
from holdfast.store.sqlite.executor import SqliteExecutor
from holdfast.store.tables.store import SqlStore
from holdfast.testing.conformance.harness import Backend
from holdfast.worker.worker import Worker
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

on_all_stores = pytest.mark.parametrize("backend", STORES, indirect=True)

STRICT_STEP = {"journal.append_many": 1}
JOBS = 32
JOBS_TOGETHER = {
    "leases.claim": 1,
    "appends": JOBS,
    "events": JOBS * 6,
}
"""32 queued jobs of five reads each: one claim, one append of each job with its five steps and its end."""
TRIPS_MAX = 3
"""Commits that take those 32 appends to the disk."""

UNCOUNTED = {"wakeups.wait", "leases.start", "leases.beat", "leases.expire"}

AS_RARE_AS = 16
"""Every eighth claim goes by age; within so many jobs everything happens that happens."""

_tokens = itertools.count(1)


class Counted:
    """A worker whose calls of the store are counted: all but waiting, claims that find nothing, and those of its own
    lease, which do not depend on the number of jobs."""

    def __init__(self, shop: Shop, *, strict: bool) -> None:
        self.shop = shop
        self.calls: Counter[str] = Counter()
        store = InterceptedStore(shop.store, self._count)
        self.desk = RunnerConfig(store, GroupCommit(store.journal), shop.clock, shop.programs, strict=strict)

    async def _count(self, name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        answer = await call(*args, **options)
        if name in UNCOUNTED or (name == "leases.claim" and not answer):
            return answer
        self.calls[name] += 1
        if name == "journal.append_many":
            self.calls["appends"] += len(args[0])
            self.calls["events"] += sum(len(append.events) for append in args[0])
        return answer

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        worker = Worker(self.desk, "worker-1", lambda: f"costs-{next(_tokens)}", concurrency=JOBS)
        task = asyncio.create_task(worker.work())
        try:
            yield
        finally:
            worker.drain()
            await task

    async def run(self, jobs: int, steps: int) -> Counter[str]:
        """What so many jobs of so many reads took, from the claim to the end."""
        made = await self.shop.store.jobs.submit_many([self._draft(steps)] * jobs)
        self.calls.clear()
        async with self.working():
            for one in made:
                await self._ended(one.job_id)
        return self.calls.copy()

    async def one_by_one(self, jobs: int) -> None:
        """Somebody works: so many jobs were submitted, each when the one before had ended."""
        for _ in range(jobs):
            await self._ended((await self.shop.store.jobs.submit(self._draft(1))).job_id)

    def _draft(self, steps: int) -> JobDraft:
        async def reader(drive: Execution, given: Any) -> int:
            for number in range(given):
                await self.shop.look(drive, f"look {number}")
            return int(given)

        self.shop.programs[reader.__name__] = reader
        return JobDraft(kind=reader.__name__, input=steps)

    async def _ended(self, job_id: str) -> None:
        store = self.shop.store
        while (await store.jobs.head(job_id)).status is not Status.COMPLETED:
            await store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.05)


@on_all_stores
async def test_a_strict_step_is_one_commit(backend: Backend) -> None:
    """Two jobs that differ by ten steps differ by ten commits, and by no other call."""
    async with opened(backend) as shop:
        counted = Counted(shop, strict=True)
        short, long = await counted.run(1, 1), await counted.run(1, 11)
        long.subtract(short)
        assert {name: count / 10 for name, count in long.items() if count} == {
            **STRICT_STEP,
            "appends": 1,
            "events": 1,
        }


@on_all_stores
async def test_a_queued_job_of_reads_is_one_append(backend: Backend) -> None:
    """Nobody waits for a read to be on disk: a job's five steps and its end go together, and jobs go together."""
    async with opened(backend) as shop:
        calls = await Counted(shop, strict=False).run(JOBS, 5)
        trips = calls.pop("journal.append_many")
        assert calls == JOBS_TOGETHER
        assert trips <= TRIPS_MAX


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_no_statement_is_compiled_twice(backend: Backend) -> None:
    """SQLite asks its authorizer while it compiles: once everything was used, nobody is asked any more. Ordinary
    statements, rare ones and those over partial indexes are all kept as they were prepared."""
    async with opened(backend) as shop:
        assert isinstance(shop.store, SqlStore)
        assert isinstance(shop.store.executor, SqliteExecutor)
        asked: list[tuple[Any, ...]] = []

        def authorize(*what: Any) -> int:
            asked.append(what)
            return apsw.SQLITE_OK

        shop.store.executor.writer.authorizer = authorize
        counted = Counted(shop, strict=True)
        async with counted.working():
            await counted.one_by_one(AS_RARE_AS)
            assert asked, "they were compiled once"
            asked.clear()
            await counted.one_by_one(AS_RARE_AS)
            assert not asked
