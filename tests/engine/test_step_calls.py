"""What a live step costs in functions called, from the code that asks for it to the sealed fact: counted instead of
timed, the same on every machine. The figures may fall, and are then lowered; they do not rise."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Self

import holdfast as hf
from holdfast.agents import context
from holdfast.engine.drive import Drive
from holdfast.engine.effects import Owner
from holdfast.engine.pen import Pen
from holdfast.model.append import Holder
from holdfast.model.chain import Head
from holdfast.model.history import History
from holdfast.store.clock import VirtualClock

JOB = "job-live"
RESULT = {"summary": "a few words about what was found", "status": 200, "ok": True}

CALLS_TO_DO = 44
"""Functions of ours that run for each read that the code asks for: bound, placed, digested, performed, recorded."""

CALLS_TO_SEAL = 0
"""And for each fact of an append: its body was made with its result, and the rest of it is written out."""

app = hf.App("memory:")


@app.tool(effect="read_only")
async def fetch(number: int) -> dict[str, Any]:
    return {**RESULT, "status": number}


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


class Nobody:
    """Takes nothing to any store."""

    def wake(self, pen: Pen) -> None:
        """What is recorded waits."""

    def hurry(self, pen: Pen) -> None:
        """Nobody waits for it either."""


async def lived(steps: int) -> tuple[int, int]:
    """The calls to make so many reads, and to seal their facts."""
    clock = VirtualClock()
    pen = Pen(
        Holder(JOB, "default", 1, "token", Head(2, bytes(32))),
        mail_seen=0,
        clock=clock,
        courier=Nobody(),
        on_mail=lambda: None,
        on_loss=lambda _: None,
    )
    drive = Drive(History(), pen, clock, Owner("default", JOB, 1, None))

    async def live() -> int:
        context.enter(drive, context.Context(JOB, "default", "live"))
        with Counted() as doing:
            for number in range(steps):
                assert await fetch(number) == {**RESULT, "status": number}
        return doing.calls

    done = await drive.run(live)
    with Counted() as sealing:
        append = pen.take()
    assert append is not None
    assert len(append.events) == steps
    return done, sealing.calls


async def test_a_live_step_takes_few_calls() -> None:
    """Two jobs that differ by a hundred steps differ by a hundred times this, and by nothing else."""
    await lived(10)  # what is found out once is known
    short, long = await lived(100), await lived(200)
    each = [(more - less) / 100 for less, more in zip(short, long, strict=True)]
    assert each == [CALLS_TO_DO, CALLS_TO_SEAL]
