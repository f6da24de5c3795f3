"""What a live step costs in functions called, from the code that asks for it to the sealed fact: counted instead of
timed, the same on every machine. The figures may fall, and are then lowered; they do not rise."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from types import FrameType
from typing import Any, Self

import holdfast as hf
from holdfast.agents import context
from holdfast.engine.durable_call import Owner
from holdfast.engine.execution import Execution
from holdfast.engine.journal_writer import JournalWriter
from holdfast.model.append import Holder
from holdfast.model.hash_chain import Head
from holdfast.model.replay_history import History
from holdfast.store.clock import VirtualClock

JOB = "job-live"
RESULT = {"summary": "a few words about what was found", "status": 200, "ok": True}

CALLS_TO_DO = 34
"""Functions of ours that run for each read that the code asks for: bound, placed, digested, performed, recorded."""

BUILT_IN_CALLS_TO_DO = 43
"""And functions of Python's own that those call."""

CALLS_TO_DO_STRICTLY = 51
"""Functions of ours for a read that is on disk before the code goes on; what the store does is not among them."""

CROWD = 1_000
"""Callbacks of other jobs that are about to run."""

CALLS_TO_SEAL = 0
"""And for each fact of an append: its body was made with its result, and the rest of it is written out."""

app = hf.App("memory:")


@app.tool(effect="read_only")
async def fetch(number: int) -> dict[str, Any]:
    return {**RESULT, "status": number}


class Counted:
    """How many functions of Holdfast were called, or gone on with, within the block."""

    def __enter__(self) -> Self:
        self.calls = self.built_in_calls = 0
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        if "/holdfast/" in frame.f_code.co_filename:
            self.calls += event == "call"
            self.built_in_calls += event == "c_call"


class Nobody:
    """Takes nothing to any store."""

    def wake(self, pen: JournalWriter) -> None:
        """What is recorded waits."""

    def hurry(self, pen: JournalWriter) -> None:
        """Whoever waits goes on at once."""
        append = pen.take()
        assert append is not None
        pen.settle(append.head)


async def lived(steps: int, *, strict: bool = False, crowd: int = 0) -> tuple[int, int, int]:
    """The calls to make so many reads, those of Python's own functions among them, and the calls to seal their facts.
    `crowd`: so many callbacks of other code are about to run."""
    clock = VirtualClock()
    pen = JournalWriter(
        Holder(JOB, "default", 1, "token", Head(2, bytes(32))),
        mail_seen=0,
        clock=clock,
        courier=Nobody(),
        on_mail=lambda: None,
        on_loss=lambda _: None,
    )
    drive = Execution(History(), pen, clock, Owner("default", JOB, 1, None), strict=strict)

    async def live() -> tuple[int, int]:
        context.enter(drive, context.Context(JOB, "default", "live"))
        for _ in range(crowd):
            asyncio.get_running_loop().call_soon(lambda: None, context=contextvars.Context())
        with Counted() as doing:
            for number in range(steps):
                assert await fetch(number) == {**RESULT, "status": number}
        return doing.calls, doing.built_in_calls

    calls, built_in_calls = await drive.run(live)
    with Counted() as sealing:
        append = pen.take()
    assert strict or append is not None
    assert append is None or len(append.events) == steps
    return calls, built_in_calls, sealing.calls


async def count_each(**options: Any) -> list[float]:
    """The same of one more read: two jobs that differ by a hundred reads differ by nothing else."""
    await lived(10, **options)  # what is found out once is known
    short, long = await lived(100, **options), await lived(200, **options)
    return [(more - less) / 100 for less, more in zip(short, long, strict=True)]


async def test_a_live_step_takes_few_calls() -> None:
    """Goal: a read stays as cheap as it is. Method: the calls for one more of them."""
    assert await count_each() == [CALLS_TO_DO, BUILT_IN_CALLS_TO_DO, CALLS_TO_SEAL]


async def test_a_strict_step_takes_few_calls() -> None:
    """Goal: the same of a read that waits for the disk. Method: a store that has written before it is asked to."""
    calls, *_ = await count_each(strict=True)
    assert calls == CALLS_TO_DO_STRICTLY


async def test_a_step_costs_the_same_on_a_busy_worker() -> None:
    """Goal: a step does not look at what the other jobs of its worker are about to do. Method: the calls for one more
    read, while a thousand callbacks of other code are ready."""
    alone, crowded = await count_each(crowd=1), await count_each(crowd=CROWD)
    assert crowded == alone
