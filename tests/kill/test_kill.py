"""kill -9, again and again, on real processes: nothing is lost, nothing is done twice, and the store is whole."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from holdfast.engine.verify.journal_checks import JournalLimits
from holdfast.engine.verify.verify import verify
from holdfast.model.events import JobClaimed, ToolUncertain
from holdfast.model.hash_chain import unseal
from holdfast.model.jobs import JobDraft
from holdfast.model.states import Status
from holdfast.runtime import open_store
from holdfast.store.tables.store import SqlStore
from tests.kill.crew import ATTEMPTS, CONCURRENCY, all_jobs


def jobs_for(kills: int) -> int:
    """Enough work that the kills meet somebody at it."""
    return 2 * kills


async def killed(address: str, world: Path, kills: int, seed: int) -> None:
    """The store and the world after so many kills, once every job is over."""
    world.touch()
    store = await open_store(address)
    await store.jobs.submit_many([JobDraft(kind="errand", input=n) for n in range(jobs_for(kills))])
    await store.close()
    arguments = [sys.executable, "-m", "tests.kill.crew", address, str(world), str(kills), str(seed)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*arguments, stdout=pipe, stderr=pipe)
    out, complaints = await process.communicate()
    assert b"Traceback" not in complaints, complaints.decode()
    assert json.loads(out) == {"kills": kills, "settled": True}


async def judge(address: str, world: Path, kills: int) -> None:
    store = await open_store(address)
    try:
        jobs = await all_jobs(store)
        assert Counter(job.status for job in jobs) == {Status.COMPLETED: jobs_for(kills)}
        told: Counter[str] = Counter()
        for job in jobs:
            for sealed in await store.journal.read(job.job_id):
                event = unseal(sealed)
                told["takeovers"] += isinstance(event, JobClaimed) and event.takeover
                told["uncertain"] += isinstance(event, ToolUncertain)
        assert isinstance(store, SqlStore)
        report = await verify(store, JournalLimits(attempts=ATTEMPTS, concurrency=CONCURRENCY))
    finally:
        await store.close()
    done = Counter(world.read_text().splitlines())
    twice = {line: times for line, times in done.items() if times > 1}
    assert not twice, "a receiver was told twice"
    kinds = Counter(line.split()[0] for line in done)
    assert kinds == {"keyed": 2 * len(jobs), "plain": len(jobs)}, "everybody was told once"
    assert report.clean, report
    # A run in which nothing was interrupted shows nothing.
    assert told["takeovers"] >= kills // 4, told
    assert told["uncertain"] >= kills // 100, told
    print(f"{kills} kills: {dict(told)}")


@pytest.mark.parametrize(
    "kills", [100, pytest.param(1000, marks=[pytest.mark.chaos, pytest.mark.timeout(1800)])]
)
@pytest.mark.store("sqlite")
async def test_kill_9_on_sqlite(tmp_path: Path, kills: int) -> None:
    address, world = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "world.log"
    await killed(address, world, kills, seed=kills)
    await judge(address, world, kills)


@pytest.mark.parametrize(
    "kills", [50, pytest.param(500, marks=[pytest.mark.chaos, pytest.mark.timeout(1800)])]
)
@pytest.mark.store("postgres")
async def test_kill_9_on_postgres(postgres_database: str, tmp_path: Path, kills: int) -> None:
    world = tmp_path / "world.log"
    await killed(postgres_database, world, kills, seed=kills)
    await judge(postgres_database, world, kills)
