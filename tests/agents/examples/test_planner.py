"""The planner of examples/planner.py runs by itself, and survives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from holdfast.testing import survives_crashes
from tests.support.project import ROOT


def test_the_planner_runs_by_itself(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "HOLDFAST_STORE": f"sqlite:///{tmp_path / 'example.db'}",
    }
    command = [sys.executable, str(ROOT / "examples" / "planner.py")]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "It will be sunny in Turin. You have 2 seats on TU 9512" in done.stdout


def test_the_planner_survives() -> None:
    from examples import planner  # it declares its agents where it is loaded

    survival = survives_crashes(planner.journey, "to Turin", kill="twice")
    assert len(survival.points) > 100
