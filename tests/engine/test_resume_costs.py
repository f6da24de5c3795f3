"""What a resume costs for each step that it replays, counted instead of timed: the same on every machine. The figures
may fall, and are then lowered; they do not rise."""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any, Self

import pytest

import holdfast as hf
from holdfast.agents import context
from holdfast.engine import journal_loader
from holdfast.engine.durable_call import Owner
from holdfast.engine.execution import Execution
from holdfast.model import canonical
from holdfast.model.events import JobClaimed, JobCreated, StepFinished
from holdfast.model.hash_chain import EMPTY, SealedEvent, seal
from holdfast.model.replay_history import History
from holdfast.store.clock import VirtualClock

JOB = "job-long"
RESULT = {"summary": "a few words about what was found", "status": 200, "ok": True}

CALLS_TO_READ = 3
"""Functions of ours that run for each event of a journal that is read: linked and opened, folded, taken."""

CALLS_TO_REPLAY = 16
"""And for each recorded call that the code asks for again: bound, placed, digested, found, handed over."""

app = hf.App("memory:")


@app.tool(effect="read_only")
async def fetch(number: int) -> dict[str, Any]:
    pytest.fail(f"step {number} runs again")


class Counted:
    """How many functions of Holdfast were called, or gone on with, within the block."""

    def __enter__(self) -> Self:
        self.calls = 0
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "/holdfast/" in frame.f_code.co_filename:
            self.calls += 1


def journal(steps: int) -> list[SealedEvent]:
    first, head = seal(JOB, EMPTY, 0, 1, [JobCreated("long")])
    facts = [
        StepFinished(f"0/fetch#{number + 1}", canonical.digest_of({"number": number}).hex(), result=RESULT)
        for number in range(steps)
    ]
    return [*first, *seal(JOB, head, 1, 1, [JobClaimed("w1"), *facts])[0]]


async def resumed(steps: int) -> tuple[int, int]:
    """The calls to read so many steps, and to replay them."""
    sealed, history = journal(steps), History()
    with Counted() as reading:
        journal_loader.replay_events(JOB, sealed, history)
    drive = Execution(history, None, VirtualClock(), Owner("default", JOB, 1, None))  # type: ignore[arg-type]

    async def long() -> int:
        context.enter(drive, context.Context(JOB, "default", "long"))
        with Counted() as replaying:
            for number in range(steps):
                assert await fetch(number) == RESULT
        return replaying.calls

    return reading.calls, await drive.run(long)


async def test_a_replayed_step_takes_few_calls() -> None:
    """Two jobs that differ by a hundred steps differ by a hundred times this, and by nothing else."""
    await resumed(10)  # what is found out once is known
    short, long = await resumed(100), await resumed(200)
    each = [(more - less) / 100 for less, more in zip(short, long, strict=True)]
    assert each == [CALLS_TO_READ, CALLS_TO_REPLAY]


def test_a_long_journal_leaves_the_garbage_collector_nothing_to_walk_through() -> None:
    """A thousand records are no work for it: none of them is an object that it tracks."""
    sealed, history = journal(1_000), History()
    gc.collect()
    before = len(gc.get_objects())
    journal_loader.replay_events(JOB, sealed, history)
    gc.collect()
    assert len(gc.get_objects()) - before < 50
    assert history.find("0/fetch#1000", canonical.digest_of({"number": 999}).hex()) is not None
