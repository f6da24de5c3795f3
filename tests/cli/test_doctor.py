"""`holdfast doctor` names what is in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
