"""`holdfast init`: what it writes runs as it stands, in the order in which it says to run it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_newcomer import holdfast

pytestmark = [pytest.mark.store("sqlite"), pytest.mark.timeout(120)]


def test_what_it_says_works(tmp_path: Path) -> None:
    made = holdfast(tmp_path, "init", "mine")
    assert made.returncode == 0, made.stderr
    typed = [line.strip() for line in made.stderr.splitlines()[1:]]
    assert typed[0] == "cd mine"
    ran = holdfast(tmp_path / "mine", *shlex.split(typed[1])[1:])
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith('"Done: refunded 12.00 for order 42, receipt ')
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"],
        cwd=tmp_path / "mine",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout
    assert "1 passed" in tested.stdout
    assert typed[3] == "holdfast up app.py", "see test_up"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("mine")
    refused = holdfast(tmp_path, "init")
    assert (refused.returncode, "exists already" in refused.stderr) == (4, True)
    assert (tmp_path / "app.py").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["app.py"]
