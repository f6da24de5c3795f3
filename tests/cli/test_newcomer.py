"""Somebody who declared nothing, and is killed: the screen says why, what to type now, and what to write next time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.store("sqlite")

MINE = """
import holdfast as hf

@hf.step
def send_mail(to: str) -> str:
    with open("outbox", "a") as file:
        print(to, file=file)
    return "sent"

@hf.agent
async def mine(to: str) -> str:
    return await send_mail(to)
"""

DYING = {
    "HOLDFAST_TEST_CRASH_AFTER_TOOL": "send_mail",
    "HOLDFAST_TEST_CRASH_STAGE": "after_tool_success_before_receipt",
}


def holdfast(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


def test_an_undeclared_step_that_was_cut_off(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    (tmp_path / "job.json").write_text(
        json.dumps({"agent": "mine", "input": {"to": "ada"}, "id": "first"}), encoding="utf-8"
    )
    killed = holdfast(tmp_path, "run", "--job", "job.json", "--app", "mine.py", **DYING)
    assert killed.returncode == 137

    held = holdfast(tmp_path, "run", "--resume", "--run-id", "first")
    assert held.returncode == 1
    assert "outcome unknown: send_mail was cut off" in held.stderr
    assert "holdfast reconcile first 0/send_mail#1 --happened | --not-happened --why …" in held.stderr
    assert "holdfast job first" in held.stderr
    assert "Traceback" not in held.stderr

    screen = holdfast(tmp_path, "job", "first").stdout
    for said in (
        "Needs a person: Outcome unknown: send_mail",
        "it is unsafe to repeat and cannot be looked up",
        "holdfast reconcile first '0/send_mail#1' --happened --result @file --why '…'",
        "To let Holdfast recover this call by itself, declare its side effect in its @hf.tool or @hf.step:",
        'effect="read_only"  it changes nothing: run again',
        'effect="idempotent"  sent again under the same idempotency key',
        'effect="verifiable", probe=…  the receiver is asked first',
    ):
        assert said in screen, said

    words = ("--happened", "--result", '"sent"', "--why", "it is in the outbox")
    assert holdfast(tmp_path, "reconcile", "first", "0/send_mail#1", *words).returncode == 0
    done = holdfast(tmp_path, "run", "--resume", "--run-id", "first")
    assert (done.returncode, done.stdout.strip()) == (0, '"sent"')
    assert (tmp_path / "outbox").read_text(encoding="utf-8") == "ada\n", "once"
