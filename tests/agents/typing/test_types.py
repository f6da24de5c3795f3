"""What a type checker knows of the surface: types go in and come out of every decorator, and wrong calls are errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import ROOT

pytestmark = pytest.mark.timeout(600)
SURFACE = Path(__file__).with_name("surface.py")
WRONG = re.compile(r"# type: ignore\[([a-z-]+)\]")
SAID = re.compile(r"^[^:]+:(\d+): error: (.*?)  \[([a-z-]+)\]$")


def checked(path: Path) -> dict[int, tuple[str, str]]:
    """What mypy, as strict as for our own code, says of a file: line → code and words."""
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    found = [SAID.match(line) for line in done.stdout.splitlines()]
    return {int(one[1]): (one[3], one[2]) for one in found if one is not None}


def test_types_survive_and_wrong_calls_are_errors(tmp_path: Path) -> None:
    """Goal: mypy infers what the author wrote, through every wrapper. Method: a file of right calls with their types,
    and wrong calls marked as such; without the marks exactly the wrong calls are errors, each of its kind."""
    text = SURFACE.read_text(encoding="utf-8")
    wanted = {nth: match[1] for nth, line in enumerate(text.splitlines(), 1) if (match := WRONG.search(line))}
    assert len(wanted) > 30
    assert text.count("assert_type(") > 40
    bare = tmp_path / "surface.py"
    bare.write_text(WRONG.sub("", text), encoding="utf-8")
    found = checked(bare)
    assert {line: code for line, (code, _words) in found.items()} == wanted, found


def test_a_type_that_is_lost_is_noticed(tmp_path: Path) -> None:
    """The check itself can fail: a tool whose result is said to be something else."""
    text = SURFACE.read_text(encoding="utf-8")
    right = 'assert_type(await bare("42"), Order)'
    assert right in text
    wrong = tmp_path / "surface.py"
    wrong.write_text(text.replace(right, 'assert_type(await bare("42"), str)'), encoding="utf-8")
    (said,) = checked(wrong).values()
    assert said == ("assert-type", 'Expression is of type "Order", not "str"')
