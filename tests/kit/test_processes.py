"""Calls and steps of processes that are killed, and of processes that come at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import CallUncertain
from holdfast.kit import CheckpointManager, LeaseManager, RecoverySweep, ToolLedger, get_db
from tests.kit.crew import note

ROOT = Path(__file__).resolve().parents[2]


def crew(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.kit.crew", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def begun_and_killed(database: Path, effect: str, log: Path) -> str:
    """The name of a process that was killed between its intent and its outcome."""
    with crew("cut", database, effect, log) as process:
        assert process.stdout is not None
        name: str = json.loads(process.stdout.readline())["begun"]
        os.kill(process.pid, signal.SIGKILL)
    return name


@pytest.mark.store("sqlite")
def test_a_killed_process_leaves_an_uncertain_call(tmp_path: Path) -> None:
    """kill -9 after the mail has gone: it is not sent again until somebody has looked."""
    database, log = tmp_path / "kit.db", tmp_path / "mail.log"
    begun_and_killed(database, "unsafe", log)
    with get_db(database) as db:
        ledger = ToolLedger(db)
        assert len(CheckpointManager(conn=db).list_open_steps("t")) == 1, "what it was about to do"
        for _ in range(2):
            with pytest.raises(CallUncertain, match="may have happened"):
                ledger.execute_or_replay("mail", "send", lambda: note(str(log)), "t")
        assert ledger.get_execution_history("t")[0]["status"] == "uncertain", "its process is proven dead"
        ledger.reconcile(
            "mail", "send", "happened", why="it is in the log", result={"sent": True}, task_id="t"
        )
        assert ledger.execute_or_replay("mail", "send", lambda: note(str(log)), "t")["replayed"]
    assert log.read_text() == "sent\n"


@pytest.mark.store("sqlite")
def test_a_killed_process_leaves_a_harmless_call_to_the_next(tmp_path: Path) -> None:
    database, log = tmp_path / "kit.db", tmp_path / "mail.log"
    begun_and_killed(database, "idempotent", log)
    with get_db(database) as db:
        result = ToolLedger(db, effect="idempotent").execute_or_replay(
            "mail", "send", lambda: note(str(log)), "t"
        )
    assert result == {"sent": True, "replayed": False}
    assert log.read_text() == "sent\nsent\n", "declared harmless, so it was made again"


@pytest.mark.store("sqlite")
def test_of_many_processes_one_executes(tmp_path: Path) -> None:
    """Eight processes make the same unsafe call at the same moment, five times over: one mail each time."""
    for round_ in range(5):
        database, log = tmp_path / f"kit-{round_}.db", tmp_path / f"mail-{round_}.log"
        get_db(database).close()  # there is a schema; they race for the call, not for that
        with crew("race", database, 8, log) as process:
            assert process.stdout is not None
            codes = json.loads(process.stdout.readline())["codes"]
        assert log.read_text() == "sent\n"
        assert set(codes) <= {0, 2}, "replayed, or told that somebody else is at it"
        assert 0 in codes


@pytest.mark.store("sqlite")
def test_items_of_a_killed_process_are_free_at_once(tmp_path: Path) -> None:
    """A lease of five minutes under the name of a process that was killed: the next sweep frees it."""
    database = tmp_path / "kit.db"
    name = begun_and_killed(database, "unsafe", tmp_path / "mail.log")
    with get_db(database) as db:
        dead, alive = LeaseManager(db, name), LeaseManager(db)
        items = alive.submit_many(["of the dead", "of the living"])
        assert dead.acquire_lease() is not None
        kept = alive.acquire_lease()
        assert kept is not None
        assert RecoverySweep(db).scan_and_recover().recovered == 1
        freed = alive.acquire_lease()
        assert freed is not None
        assert {freed.work_item_id, kept.work_item_id} == set(items)
        assert alive.release_lease(kept.work_item_id)
