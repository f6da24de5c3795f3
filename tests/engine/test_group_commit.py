"""The committer's ends: what was recorded a moment before it is closed arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.engine.execution import Execution
from holdfast.engine.group_commit import AT_ONCE_MAX, GroupCommit
from holdfast.engine.job_runner import JobRun
from holdfast.errors import Fenced
from holdfast.model.append import append_of
from holdfast.model.events import StepFinished
from holdfast.model.time import SECOND
from holdfast.store.sqlite.executor import SqliteExecutor
from holdfast.store.sqlite.unit_of_work import UnitOfWork
from holdfast.store.tables.store import SqlStore
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import opened
from tests.support.fixtures.stores import STORES


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_what_was_recorded_before_the_close_arrives(backend: Backend) -> None:
    """Method: record a fact and close in the same pass of the loop, before the committer has begun."""
    async with opened(backend) as shop:

        async def program(_drive: Execution, _: Any) -> Any: ...

        job_id = await shop.submit(program)
        desk = shop.desk()
        run = await shop.claim(desk=desk)
        assert isinstance(desk.committer, GroupCommit)
        run._writer.record(StepFinished("0/look#1", "d"))
        await desk.committer.close()
        assert any(isinstance(event, StepFinished) for event in await shop.events(job_id))


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_a_job_lost_and_won_again_by_one_process_is_written_by_its_holder(backend: Backend) -> None:
    """Method: one process claims a job twice, the lease between running out; both of its pens have something to say in
    the same moment. The old one is told that the job is lost, the new one is heard."""
    async with opened(backend) as shop:

        async def program(_drive: Execution, _: Any) -> Any: ...

        job_id = await shop.submit(program)
        desk = shop.desk()
        before = await shop.claim(desk=desk)
        backend.clock.advance(31 * SECOND)
        now = await shop.claim(desk=desk)
        before._writer.record(StepFinished("0/stale#1", "d"))
        now._writer.record(StepFinished("0/look#1", "d"))
        with pytest.raises(Fenced):
            await before._writer.durable()
        await now._writer.durable()
        steps = [event.step_key for event in await shop.events(job_id) if isinstance(event, StepFinished)]
        assert steps == ["0/look#1"]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_a_lone_fact_is_on_disk_before_the_loop_goes_on(backend: Backend) -> None:
    """Method: wait for facts by hand. So many in a row never wait, the next one lets the loop go on; all are there."""
    async with opened(backend) as shop:

        async def program(_drive: Execution, _: Any) -> Any: ...

        job_id = await shop.submit(program)
        desk = shop.desk()
        run = await shop.claim(desk=desk)
        assert isinstance(shop.store, SqlStore)
        assert isinstance(shop.store.executor, SqliteExecutor)
        for nth in range(AT_ONCE_MAX):
            shop.store.executor._commit_s = 0.0  # as on a quick disk
            run._writer.record(StepFinished(f"0/look#{nth}", "d"))
            with pytest.raises(StopIteration):
                run._writer.durable().send(None)
        run._writer.record(StepFinished("0/breathe#1", "d"))
        waiting = run._writer.durable()
        assert waiting.send(None) is not None, "it is on its way"
        waiting.close()
        await desk.committer.close()
        steps = [event.step_key for event in await shop.events(job_id) if isinstance(event, StepFinished)]
        assert steps == [*(f"0/look#{nth}" for nth in range(AT_ONCE_MAX)), "0/breathe#1"]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_a_crowd_shares_its_flushes(backend: Backend) -> None:
    """Method: eight jobs have a fact to be waited for in the same pass of the loop, ten times over. At most the very
    first is written by itself; everybody else goes together."""
    async with opened(backend) as shop:

        async def program(_drive: Execution, _: Any) -> Any: ...

        for _ in range(8):
            await shop.submit(program)
        desk = shop.desk()
        runs = await shop.claim_all(desk=desk)
        assert isinstance(shop.store, SqlStore)
        executor = shop.store.executor
        assert isinstance(executor, SqliteExecutor)
        commits: list[int] = []
        plain = executor._commit

        def committing(batch: Sequence[UnitOfWork[Any]]) -> None:
            commits.append(len(batch))
            plain(batch)

        executor._commit = committing  # type: ignore[method-assign]

        async def write(run: JobRun, nth: int) -> None:
            executor._commit_s = 0.0  # as on a quick disk
            run._writer.record(StepFinished(f"0/look#{nth}", "d"))
            await run._writer.durable()

        for nth in range(10):
            await asyncio.gather(*(write(run, nth) for run in runs))
        assert len(commits) <= 11


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_what_may_not_be_written_is_not_written_on_the_spot(backend: Backend) -> None:
    """Method: the append of a holder that has lost its job, and one that is there already. Neither is written again,
    and the long way says what each is."""
    async with opened(backend) as shop:

        async def program(_drive: Execution, _: Any) -> Any: ...

        job_id = await shop.submit(program)
        before = (await shop.claim())._writer.holder
        stale = append_of(before, [StepFinished("0/stale#1", "d")], at=backend.clock.wall_us())
        backend.clock.advance(31 * SECOND)
        now = (await shop.claim())._writer.holder
        told = append_of(now, [StepFinished("0/look#1", "d")], at=backend.clock.wall_us())
        await shop.store.journal.append(told)
        written = await shop.events(job_id)
        assert [shop.store.journal.append_now(one) for one in (stale, told)] == [None, None]
        assert await shop.events(job_id) == written
        assert await shop.store.journal.append(told) == told.head
        with pytest.raises(Fenced):
            await shop.store.journal.append(stale)
