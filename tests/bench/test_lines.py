"""Contestants in other processes: the line, the storm of writers, and that a wrong count is noticed. No peer needed."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.contest import Absent
from bench.peers import Lines
from bench.places import File
from bench.writers import Writers

PROGRAM = """
import os, sys
sys.path.insert(0, {folder!r})
import line

class Work(line.Work):
    def open(self):
        self.done = 0
    def begin(self):
        assert self.done % 2 == 0
    def operation(self, number):
        self.done += 1
        return {{"took_s": 0.5, "number": number}}
    def count(self):
        return {{"jobs": self.done - self.told.lost}}

def silent(told):
    raise SystemExit("no such work")

line.main({{"work": Work, "silent": silent}})
"""


class Program(Lines):
    file: Path

    def program(self) -> list[str]:
        return [sys.executable, str(self.file)]


@pytest.fixture
def program(tmp_path: Path) -> Any:
    from bench.peers import line

    folder = str(Path(line.__file__).parent)
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(folder=folder))

    def made(work: str, **told: Any) -> Program:
        one = Program(File(tmp_path / "some.db"), "some peer", work, told)
        one.file = file
        return one

    return made


async def test_a_program_is_driven_line_by_line(program: Any) -> None:
    """It counts operations from 0 in every lap, says how long they took, and is asked at the end what it holds."""
    one = program("work", lost=0)
    await one.open()
    for _ in range(2):
        await one.begin()
        assert [await one.operation(number) for number in range(2)] == [0.5, 0.5]
        await one.end()
    assert [answer["number"] for answer in one.answers] == [0, 1, 0, 1]
    await one.close()


async def test_who_lost_a_write_has_not_won(program: Any) -> None:
    one = program("work", lost=1)
    await one.open()
    await one.begin()
    await one.operation(0)
    with pytest.raises(AssertionError, match="some peer"):
        await one.close()
    await one.kill()


async def test_a_program_that_does_not_start_is_absent(program: Any) -> None:
    with pytest.raises(Absent, match="in place of ready"):
        await program("silent").open()


async def test_a_program_ends_with_its_input(program: Any) -> None:
    """Nobody outlives the harness: the pipe closes, the process ends."""
    one = program("work", lost=0)
    await one.open()
    pid = one._process.pid
    one._process.stdin.close()
    async with asyncio.timeout(20):
        await one._process.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.store("sqlite")
@pytest.mark.parametrize("work", ["holdfast", "flock", "busy"])
async def test_every_write_of_a_storm_is_stored(work: str, tmp_path: Path) -> None:
    """Four processes write three times each, and once before that, twice; `close` compares what is stored with
    what was asked for."""
    told = {"writers": 4, "each": 3, "jobs": 16}
    one = Writers(File(tmp_path / "storm.db"), work, work, told)
    await one.open()
    for _ in range(2):
        await one.begin()
        assert (await one.operation(0) or 0) > 0
        await one.end()
    assert [(answer["accepted"], answer["refused"]) for answer in one.answers] == [(12, 0)] * 2
    assert all(0 < answer["longest_s"] <= answer["took_s"] for answer in one.answers)
    await one.close()
