"""`holdfast doctor` names what is in the way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from holdfast.engine.backups import LastBackup, remember_backup
from holdfast.engine.recovery import LastSweep, SweepStats, remember_sweep
from holdfast.errors import StoreReadOnly
from holdfast.model.time import HOUR
from holdfast.runtime.store_opener import open_store
from holdfast.store.sql.migrate import MIN_READER
from holdfast.store.sqlite.lock_holders import _has_place
from tests.api.client.job_states import Lives
from tests.cli.conftest import CommandDesk, desk, postgres_template
from tests.cli.test_db import holdfast
from tests.support.servers import NatsServer

__all__ = ["desk", "postgres_template"]

BOTH = pytest.mark.parametrize("desk", ["sqlite", "postgres"], indirect=True)

HOLD = """
import sys
import time
from pathlib import Path
from holdfast.store.sqlite.write_lock import WriteLock
WriteLock(Path(sys.argv[1])).enter()
print("in", flush=True)
sys.stdin.read()
"""


@pytest.mark.store("sqlite")
def test_processes_stopped_at_the_turnstile_are_named(tmp_path: Path) -> None:
    """Stop a process that has the turn and one that waits for it: doctor names both and says how to go on, instead of
    waiting behind them."""
    holdfast("db", "migrate", cwd=tmp_path)
    database = tmp_path / "holdfast.db"
    with ExitStack() as stack:
        holder = stack.enter_context(_entering(database))
        stack.callback(holder.kill)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "in\n"
        waiter = stack.enter_context(_entering(database))
        stack.callback(waiter.kill)
        gate = Path(f"{database}-gate").stat().st_ino
        while not _has_place(waiter.pid, f":{gate} "):
            os.sched_yield()
        for one in (holder, waiter):
            os.kill(one.pid, signal.SIGSTOP)
        done = holdfast("doctor", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert f"process {holder.pid} is stopped inside its turn" in done.stdout
    assert f"process {waiter.pid} is stopped in the line for its turn" in done.stdout
    assert f"kill -CONT {holder.pid}" in done.stdout
    assert f"kill -CONT {waiter.pid}" in done.stdout


def _entering(database: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(database)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.store("sqlite")
async def test_the_last_sweep_that_found_something_is_told(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path / 'holdfast.db'}")
    stats = SweepStats(expired_found=3, recovered=2, failed=1)
    await remember_sweep(store, LastSweep(at=1_700_000_000_000_000, by="sweep of a", stats=stats))
    await store.close()
    done = await asyncio.to_thread(holdfast, "doctor", "--json", cwd=tmp_path)
    assert "2 jobs requeued, 1 moved to the dead-letter queue" in done.stdout
    assert "2023-11-14T22:13:20" in done.stdout


def findings(out: str) -> dict[str, tuple[str, str]]:
    """Check → verdict and what was found."""
    lines = [json.loads(line) for line in out.splitlines()]
    return {line["check"]: (line["verdict"], line["finding"]) for line in lines}


@BOTH
def test_a_healthy_store_is_told_in_full(desk: CommandDesk, tmp_path: Path) -> None:
    desk.live(lambda one: one.finished())
    desk.type("db", "backup", str(tmp_path / "copy.db"))
    done = desk.type("doctor", "--json")
    told = findings(done.out)
    assert done.status == 0
    tier = told.pop("tier")
    if desk.where.startswith("sqlite"):
        assert tier == ("ok", "sqlite: survives kill -9 and a power cut")
    else:  # the server of the tests does not flush, and that is said
        assert (tier[0], "a power cut may take acknowledged records" in tier[1]) == ("warning", True)
    assert {verdict for verdict, _ in told.values()} == {"ok"}, told
    assert {"schema", "clock", "orphaned leases", "uncertain calls", "backup", "journals"} <= set(told)
    assert f"readable by Holdfast with schema {MIN_READER} or newer" in told["schema"][1]
    assert " 1 job verified" in told["journals"][1].replace("of ", " ")


@BOTH
def test_what_waits_for_somebody_is_a_warning(desk: CommandDesk) -> None:
    desk.live(lambda one: one.uncertain())
    desk.live(lambda one: one.dead())
    desk.live(lambda one: one.parked())
    done = desk.type("doctor", "--json")
    told = findings(done.out)
    assert done.status == 0, "nothing is broken"
    assert told["uncertain calls"][0] == told["dead letters"][0] == told["parked jobs"][0] == "warning"
    assert told["backup"] == ("warning", "no backup recorded. Make one: holdfast db backup FILE")


def test_a_worker_that_is_gone_and_a_queue_without_one(desk: CommandDesk) -> None:
    async def orphan(one: Lives) -> None:
        await one.submit(one.nap)
        await one.claim()
        await one.submit(one.nap)

    desk.live(orphan)
    told = findings(desk.type("doctor", "--json").out)
    assert told["orphaned leases"][0] == "warning"
    assert told["queues"][0] == "warning"
    assert "Are workers running?" in told["queues"][1]


def test_a_journal_that_was_changed_fails(desk: CommandDesk) -> None:
    job_id = desk.live(lambda one: one.finished())
    file = desk.where.removeprefix("sqlite:///")
    connection = apsw.Connection(file)
    triggers = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
    for trigger in triggers:
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute("UPDATE events SET at = at + 1 WHERE seq = 2")
    connection.close()
    done = desk.type("doctor", "--json")
    assert done.status == 1
    failed = [line for line in done.lines if line["verdict"] == "failed"]
    assert failed, done.out
    assert all(line["check"] == "journals" and job_id in line["finding"] for line in failed)
    assert desk.type("doctor", "--sample", "0").status == 0, "nobody looked"


@pytest.mark.parametrize("hours, verdict, status", [(1, "ok", 0), (27, "warning", 0), (73, "failed", 1)])
def test_a_backup_has_an_age(desk: CommandDesk, hours: int, verdict: str, status: int) -> None:
    async def backed_up(one: Lives) -> None:
        at = time.time_ns() // 1000 - hours * HOUR
        await remember_backup(one.store, LastBackup(at, "digest"))

    desk.live(backed_up, ago_us=0)
    done = desk.type("doctor", "--json")
    assert (findings(done.out)["backup"][0], done.status) == (verdict, status)


def test_a_backup_that_the_store_cannot_note_is_made_all_the_same(
    desk: CommandDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(*_: object, **__: object) -> None:
        raise StoreReadOnly("a replica")

    desk.live(lambda one: one.finished())
    monkeypatch.setattr("holdfast.cli.db.remember_backup", refuses)
    done = desk.type("db", "backup", str(tmp_path / "copy.db"))
    assert (done.status, "a replica" in done.err, (tmp_path / "copy.db").is_file()) == (0, True, True)


def test_it_says_how_nats_is(
    desk: CommandDesk, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nats_line() -> list[str]:
        lines = desk.type("doctor", "--json").lines
        return [f"{one['verdict']}: {one['finding']}" for one in lines if one["check"] == "nats"]

    desk.live(lambda one: one.sleeping())
    assert nats_line() == []
    monkeypatch.setenv("HOLDFAST_NATS_URL", nats_server.url)
    (line,) = nats_line()
    assert line.startswith("ok: connected, with JetStream")
    monkeypatch.setenv("HOLDFAST_NATS_URL", "nats://u:hush-hush-17@127.0.0.1:1")
    (line,) = nats_line()
    assert line.startswith("warning: no NATS server listens at 127.0.0.1:1")
    monkeypatch.setenv("HOLDFAST_NATS_URL", "http://u:hush-hush-17@host")
    (line,) = nats_line()
    assert line.startswith("failed: ")
    assert "hush" not in line
