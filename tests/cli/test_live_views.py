"""What changes while one looks, numbers, and the shell's completion: on real terminals and in real shells."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.client.registering import COUNTED
from tests.cli.conftest import CommandDesk
from tests.cli.test_agents_and_schedules import Terminal

pytestmark = pytest.mark.store("sqlite")


def test_numbers_of_jobs(desk: CommandDesk) -> None:
    assert desk.type("stats").status == 3, "looking makes no store"
    desk.live(lambda one: one.dead())
    desk.live(lambda one: one.finished())
    counted = {"jobs": 2, "waiting": 1, "completed": 1}
    nothing = dict.fromkeys(COUNTED, 0)
    assert desk.type("stats", "--json").json == {"totals": counted | nothing, "byProject": {}}
    head, row = desk.type("stats").out.splitlines()
    assert head.split() == [
        "jobs",
        *"pending running waiting completed failed cancelled".split(),
    ]
    assert row.split() == ["all", "2", "0", "0", "1", "1", "0", "0"]


@pytest.mark.parametrize("words", [("jobs", "--watch"), ("stats", "--watch")])
def test_a_watched_table_is_redrawn_until_ctrl_c(
    desk: CommandDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """A job that comes later appears; the cursor goes up and nothing scrolls; Ctrl-C ends it without a word."""
    monkeypatch.setenv("TERM", "xterm")
    desk.live(lambda one: one.dead())
    terminal = Terminal(tmp_path, *words)
    try:
        terminal.see("hopeless" if words[0] == "jobs" else "all")
        desk.live(lambda one: one.submit(one.report))
        terminal.see("report" if words[0] == "jobs" else "2")
        terminal.see("\x1b[1A")
        terminal.type("\x03")
        assert terminal.process.wait(30) == 0
        assert "interrupted" not in terminal.seen
        assert "Traceback" not in terminal.seen
    finally:
        terminal.close()


def test_watched_into_a_pipe_every_look_is_a_line(desk: CommandDesk) -> None:
    desk.live(lambda one: one.dead())
    watching = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "stats", "--watch", "--json"], stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    try:
        first, second = watching.stdout.readline(), watching.stdout.readline()
    finally:
        watching.kill()
        watching.wait()
        watching.stdout.close()
    assert first == second
    assert json.loads(first)["totals"] == {"jobs": 1, "waiting": 1} | dict.fromkeys(COUNTED, 0)


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    """A real bash asks as it does at Tab: the script registers, and the words come from the command itself."""
    script = subprocess.run(
        [sys.executable, "-m", "holdfast", "completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    (tmp_path / "holdfast").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n', encoding="utf-8"
    )
    (tmp_path / "holdfast").chmod(0o755)
    ask = 'COMP_WORDS=({words}); COMP_CWORD={nth}; _holdfast_completion holdfast; echo "${{COMPREPLY[@]}}"'
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    found = {}
    for words, nth in (("holdfast sch", 1), ("holdfast schedule re", 2), ("holdfast jobs --wat", 2)):
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{ask.format(words=words, nth=nth)}"],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            timeout=60,
        )
        found[words] = done.stdout.split()
    assert found == {
        "holdfast sch": ["schedule"],
        "holdfast schedule re": ["remove", "resume"],
        "holdfast jobs --wat": ["--watch"],
    }


@pytest.mark.parametrize("shell, registers", [("zsh", "#compdef holdfast"), ("fish", "complete .*holdfast")])
def test_other_shells_get_their_own_script(desk: CommandDesk, shell: str, registers: str) -> None:
    script = desk.type("completion", shell)
    assert script.status == 0
    assert re.search(registers, script.out)
    assert desk.type("completion", "cmd").status == 2


def test_long_work_shows_a_sign_of_life_on_a_terminal(desk: CommandDesk, tmp_path: Path) -> None:
    """On a terminal only: into a pipe nothing but the result is written."""
    desk.live(lambda one: one.finished())
    assert desk.type("db", "verify").err == ""
    terminal = Terminal(tmp_path, "db", "verify")
    try:
        terminal.see("verifying")
        terminal.see("all hold")
        assert terminal.process.wait(30) == 0
    finally:
        terminal.close()
