"""`holdfast doctor` names what is in the way."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.engine.recover import LastSweep, SweepStats, remember
from holdfast.runtime.stores import open_store
from tests.cli.test_db import holdfast

HOLD = """
import sys
from pathlib import Path
from holdfast.store.sqlite.turnstile import Turnstile
Turnstile(Path(sys.argv[1])).enter()
print("in", flush=True)
sys.stdin.read()
"""


@pytest.mark.store("sqlite")
def test_a_process_stopped_inside_its_turn_is_named(tmp_path: Path) -> None:
    """Stop a process that has the turn: doctor names it and says how to go on, instead of waiting behind it."""
    holdfast("db", "migrate", cwd=tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "holdfast.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "in\n"
        os.kill(holder.pid, signal.SIGSTOP)
        try:
            done = holdfast("doctor", "--json", cwd=tmp_path)
        finally:
            os.kill(holder.pid, signal.SIGKILL)
    assert done.returncode == 1
    assert f"process {holder.pid} is stopped inside its turn" in done.stdout
    assert f"kill -CONT {holder.pid}" in done.stdout


@pytest.mark.store("sqlite")
async def test_the_last_sweep_that_found_something_is_told(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path / 'holdfast.db'}")
    stats = SweepStats(expired_found=3, recovered=2, failed=1)
    await remember(store, LastSweep(at=1_700_000_000_000_000, by="sweep of a", stats=stats))
    await store.close()
    done = await asyncio.to_thread(holdfast, "doctor", "--json", cwd=tmp_path)
    assert "2 jobs back in their queues, 1 held as dead letters" in done.stdout
    assert "2023-11-14T22:13:20" in done.stdout
