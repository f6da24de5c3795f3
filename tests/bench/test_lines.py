"""Contestants in other processes: the line, the storm of writers, and that a wrong count is noticed. No peer needed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bench.contest import Absent
from bench.peers import ROOT, Lines
from bench.places import File
from bench.writers import Writers

PROGRAM = """
import asyncio, os, sys
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

class Stubborn(line.Work):
    async def open(self):
        self.done, self.task = 0, asyncio.create_task(self.stay())
    async def stay(self):
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass
    async def operation(self, number):
        self.done += 1
    async def count(self):
        return {{"jobs": self.done}}

def silent(told):
    raise SystemExit("no such work")

line.main({{"work": Work, "stubborn": Stubborn, "silent": silent}})
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


async def test_a_program_does_not_wait_for_tasks_that_never_end(program: Any) -> None:
    """What a peer leaves running when its server is gone keeps nobody waiting."""
    one = program("stubborn")
    await one.open()
    await one.begin()
    await one.operation(0)
    async with asyncio.timeout(20):
        await one.close()
    assert one._process.returncode == 0, "it left by itself"


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


async def test_who_rests_is_stopped_between_two_words(program: Any) -> None:
    """A peer takes nothing from whoever has its turn, and is told to go on by the next word, or by the end."""
    one = program("work", lost=0)
    one.rests = True
    await one.open()
    assert _is_stopped(one._process.pid)
    await one.begin()
    assert [await one.operation(number) for number in range(2)] == [0.5, 0.5]
    assert _is_stopped(one._process.pid)
    await one.end()
    async with asyncio.timeout(20):
        await one.close()


def test_who_was_stopped_does_not_outlive_the_harness(program: Any) -> None:
    """It cannot see its input end. The kernel wakes the stopped group of a process that died, and hangs it up."""
    one = program("work", lost=0)
    harness = (
        "import asyncio, sys\n"
        "from bench.peers import Lines\n"
        "from bench.places import File\n"
        "from pathlib import Path\n"
        "Lines.program = lambda self: [sys.executable, sys.argv[1]]\n"
        "one = Lines(File(Path('some.db')), 'some peer', 'work', {'lost': 0})\n"
        "one.rests = True\n"
        "async def go():\n"
        "    await one.open()\n"
        "    print(one._process.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(go())\n"
    )
    command = [sys.executable, "-c", harness, str(one.file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as started:
        assert started.stdout is not None
        peer = int(started.stdout.readline())
        ended = os.pidfd_open(peer)
        try:
            assert _is_stopped(peer)
            started.kill()
            assert select.select([ended], [], [], 20)[0], "the peer is still there"
        finally:
            started.kill()
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(ended, signal.SIGKILL)
            os.close(ended)


def _is_stopped(pid: int) -> bool:
    """The stop was sent before we look, and takes effect when the process next runs."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            return True
        os.sched_yield()
    return False


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
