"""Ten thousand jobs at once: a worker takes what it has room for, stays as large as it was, and loses none."""

from __future__ import annotations

import json
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections import Counter
from pathlib import Path

import pytest

from holdfast.engine.verify.journal_checks import JournalLimits
from holdfast.engine.verify.verify import verify
from holdfast.model.jobs import JobDraft
from holdfast.model.states import Status
from holdfast.runtime import open_store
from holdfast.store.tables.store import SqlStore
from tests.kill.crew import all_jobs

WARM_UP = 500
JOBS = 10_000
AT_ONCE = 1000
CONCURRENCY = 32
GROWTH_KB_MAX = 40 * 1024
"""Measured: 14 to 17 MB, all of it pages that SQLite keeps; that cache has a limit of its own."""


@pytest.mark.store("sqlite")
async def test_ten_thousand_jobs_at_once(volatile_folder: Path) -> None:
    address = f"sqlite:///{volatile_folder / 'store.db'}"
    store = await open_store(address)
    assert isinstance(store, SqlStore)
    await store.jobs.submit_many([JobDraft(kind="tiny", input=n) for n in range(WARM_UP)])
    numbers = [str(number) for number in (WARM_UP, JOBS, CONCURRENCY)]
    worker = await create_subprocess_exec(
        sys.executable, "-m", "tests.worker.flood", address, *numbers, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert worker.stdout is not None
    assert worker.stdin is not None
    assert worker.stderr is not None
    assert json.loads(await worker.stdout.readline()) == {"warm": True}
    for first in range(0, JOBS, AT_ONCE):
        await store.jobs.submit_many([JobDraft(kind="tiny", input=n) for n in range(first, first + AT_ONCE)])
    worker.stdin.write(b"go\n")
    told = json.loads(await worker.stdout.readline())
    assert await worker.wait() == 0
    assert await worker.stderr.read() == b"", "nothing to complain about"

    growth_kb = told["peak_kb"] - told["before_kb"]
    print(f"{JOBS} jobs: {growth_kb / 1024:.1f} MB more than the {told['before_kb'] / 1024:.0f} MB before")
    assert growth_kb <= GROWTH_KB_MAX
    assert told["most"] == CONCURRENCY, "as many as there is room for, and never more"
    assert told["done"] == WARM_UP + JOBS, "each once"
    assert Counter(job.status for job in await all_jobs(store)) == {Status.COMPLETED: WARM_UP + JOBS}
    report = await verify(store, JournalLimits(concurrency=CONCURRENCY))
    assert report.clean, report
    await store.close()
