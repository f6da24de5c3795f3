"""Schedules over real processes: every instant once, whoever of the workers is there."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from holdfast.model.jobs import JobFilter
from holdfast.model.schedule import CatchUp, Schedule
from holdfast.model.states import Status
from holdfast.model.time import MINUTE, to_iso
from holdfast.runtime import open_store
from holdfast.store.clock import SystemClock

APP = """
import holdfast as hf

app = hf.App()

@app.step(effect="read_only")
def note(line: str) -> None:
    with open("done", "a") as file:
        print(line, file=file)

@app.schedule("* * * * *", catch_up="all", given={"word": "kelp"})
@app.agent
async def report(word: str) -> None:
    await note(f"{hf.context().job_id} {word}")
"""
MISSED = 40


def _worker(folder: Path, url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", "worker", "app.py", "--store", url],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )


def _until_it_works(worker: subprocess.Popen[str]) -> None:
    """It has said so: from then on a SIGTERM is a wish, and not the end."""
    assert worker.stderr is not None
    assert any(line.startswith("working on") for line in worker.stderr)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_database"))
    return f"sqlite:///{tmp_path / 'holdfast.db'}"


async def test_three_workers_fire_each_instant_once(url: str, tmp_path: Path) -> None:
    """Goal: no instant twice, none left out. Method: forty minutes were missed when three workers start at once, and
    all of them want to make up for it; the jobs say which instants they are of, and a file which of them were run."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    store = await open_store(url)
    first = SystemClock().wall_us() // MINUTE * MINUTE - MISSED * MINUTE
    stood = Schedule(
        schedule_id="report",
        kind="report",
        cron="* * * * *",
        next_at=first,
        catch_up=CatchUp.ALL,
        input={"word": "sand"},
    )
    await store.schedules.put(stood)
    workers = [_worker(tmp_path, url) for _ in range(3)]
    done = tmp_path / "done"
    try:
        for worker in workers:
            _until_it_works(worker)
        while (await store.jobs.counts()).get(Status.COMPLETED, 0) <= MISSED:
            assert all(worker.poll() is None for worker in workers)
            await store.wakeups.wait(frozenset({"queue:default"}), 0.1)
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        for worker in workers:
            worker.communicate(timeout=60)
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    records = list(await store.jobs.list(JobFilter(kind="report"), limit=1000))
    stands = await store.schedules.get("report")
    await store.close()
    instants = [first + n * MINUTE for n in range((stands.next_at - first) // MINUTE)]
    assert sorted(record.request_key or "" for record in records) == [
        f"report@{to_iso(instant)}" for instant in instants
    ]
    run = Counter(line.split()[0] for line in done.read_text().splitlines())
    assert set(run) <= {record.job_id for record in records}
    assert set(run.values()) == {1}
    assert all(line.endswith(" kelp") for line in done.read_text().splitlines()), (
        "as the application declares it"
    )
    assert msgspec.structs.replace(stands, next_at=0) == msgspec.structs.replace(
        stood,
        next_at=0,
        input={"word": "kelp"},
        python_version=stands.python_version,
        created_at=stands.created_at,
    )
