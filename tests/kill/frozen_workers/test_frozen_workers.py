"""Workers that were frozen over their lease and woke up: they write nothing, and nothing is sent twice.

Real processes, stopped with SIGSTOP at each point around a mail of each class, on SQLite and on Postgres. Three
witnesses: the zombie itself, the journals, and the receiver's own log.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.crash_points import Point
from holdfast.engine.verify.verify import verify
from holdfast.model.events import JobClaimed, ToolUncertain
from holdfast.model.hash_chain import unseal
from holdfast.model.jobs import JobDraft
from holdfast.model.side_effects import Effect
from holdfast.model.states import Status
from holdfast.runtime import open_store
from holdfast.store.tables.store import SqlStore
from tests.kill.crew import all_jobs
from tests.kill.frozen_workers.crew import CASES, kind_of
from tests.store.concurrency.stores import check_journal
from tests.support.fixtures.file_receivers import FiledMail

BOTH = pytest.mark.parametrize("store", ["sqlite", "postgres"])

ASKED = {
    kind_of(Effect.UNSAFE, point) for point in (Point.AFTER_INTENT, Point.AFTER_SUCCESS, Point.BEFORE_LEDGER)
}
"""A person's word is needed where nobody else can know, and nowhere else."""


async def haunted(where: str, folder: Path, wake: str) -> dict[str, Any]:
    """What the crew told, once every zombie has woken and every job is over."""
    store = await open_store(where)
    await store.jobs.submit_many([JobDraft(kind=kind, input=kind) for kind in CASES])
    await store.close()
    arguments = [sys.executable, "-m", "tests.kill.frozen_workers.crew", where, str(folder), wake]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*arguments, stdout=pipe, stderr=pipe)
    out, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    told: dict[str, Any] = json.loads(out)
    assert told["well"], complaints.decode()
    assert set(told["said"]) == set(CASES)
    return told


async def judged(where: str, folder: Path) -> dict[str, Counter[str]]:
    """What each journal tells, all of them whole, and one mail for each job in the receiver's log."""
    mail = FiledMail(folder / "mail.log")
    store = await open_store(where)
    counted: dict[str, Counter[str]] = {}
    try:
        for job in await all_jobs(store):
            assert job.status is Status.COMPLETED
            await check_journal(store, job.job_id)
            events = [unseal(sealed) for sealed in await store.journal.read(job.job_id)]
            counted[job.kind] = Counter(
                takeovers=sum(isinstance(event, JobClaimed) and event.takeover for event in events),
                uncertain=sum(isinstance(event, ToolUncertain) for event in events),
                mails=mail.count("mail", job.kind),
            )
        assert isinstance(store, SqlStore)
        report = await verify(store)
        assert report.clean, report
    finally:
        await store.close()
    assert {kind: told["mails"] for kind, told in counted.items()} == dict.fromkeys(CASES, 1)
    return counted


@BOTH
@pytest.mark.parametrize("wake", ["taken", "finished"])
async def test_a_worker_that_slept_over_its_lease_does_nothing_twice(
    where: str, volatile_folder: Path, wake: str
) -> None:
    """Goal: no stale write is accepted and no second mail goes out. Method: every zombie is woken after its job was
    taken over; in one play when the next worker has only begun, in the other when it is done."""
    told = await haunted(where, volatile_folder, wake)
    refused = 0
    for kind, said in told["said"].items():
        assert said["lost"], f"{kind}: it knows that its job is somebody else's"
        assert set(said["writes"]) <= {"fenced"}, f"{kind}: a stale write was accepted"
        refused += len(said["writes"])
    assert refused >= len(CASES) // 2, "most of them tried to write"
    assert max(told["before"].values()) == 1, "no second mail before anybody said a word"
    counted = await judged(where, volatile_folder)
    assert all(told["takeovers"] == 1 for told in counted.values())
    assert {kind for kind, told in counted.items() if told["uncertain"]} == ASKED
    print(f"{len(CASES)} zombies woken when {wake}: {refused} stale writes refused")


@BOTH
async def test_a_nap_within_the_lease_costs_nothing(where: str, volatile_folder: Path) -> None:
    """Goal: who wakes up in time goes on. Method: the same zombies with long leases, woken at once."""
    told = await haunted(where, volatile_folder, "nap")
    for kind, said in told["said"].items():
        assert said["lost"] is None, f"{kind}: {said}"
        assert set(said["writes"]) == {"accepted"}
    counted = await judged(where, volatile_folder)
    assert not any(told["takeovers"] or told["uncertain"] for told in counted.values())
