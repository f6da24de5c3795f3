"""The same code on the same facts goes the same way, whatever the timing was and wherever it was cut off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.engine.durable_call import READS, DurableCall
from holdfast.model.events import StepFinished, ToolCalled, ToolReturned
from tests.engine.replay.programs import PROGRAMS
from tests.engine.replay.stage import Journal, Killed, World, play

SEEDS = range(12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_finished_run_replays_without_a_live_call(name: str) -> None:
    """Goal: replay is the first run again. Method: many timings; each journal is replayed under two other timings; what
    the code returned and saw is the same, and nothing is called."""
    ways = set()
    for seed in SEEDS:
        first = play(PROGRAMS[name], seed=seed)
        assert not isinstance(first.output, BaseException), f"seed {seed}: {first.output!r}"
        ways.add(tuple(first.trace))
        for other in (1000, 1001):
            again = play(PROGRAMS[name], seed=other, journal=first.journal)
            assert (again.output, again.trace, again.live) == (first.output, first.trace, []), f"seed {seed}"
            assert again.journal == first.journal, f"seed {seed}"
    if name not in {"serial", "forgiving"}:
        assert len(ways) > 1, "the timings must matter, or this shows nothing"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_cut_off_anywhere_goes_on(name: str) -> None:
    """Goal: what happened before the kill is not done again, and the rest follows from it. Method: kill after every
    fact; the resumed run sees first what the killed one saw, and its own journal replays without a live call."""
    for seed in range(3):
        whole = play(PROGRAMS[name], seed=seed)
        for kill_after in range(len(whole.journal)):
            killed = play(PROGRAMS[name], seed=seed, kill_after=kill_after)
            where = f"seed {seed}, killed after fact {kill_after}"
            assert isinstance(killed.output, Killed), where
            if _cut_in_a_call(killed.journal):
                continue  # an intent without an outcome: what then follows is the matter of recovery, not of order
            resumed = play(PROGRAMS[name], seed=seed + 500, journal=killed.journal)
            assert not isinstance(resumed.output, BaseException), f"{where}: {resumed.output!r}"
            assert resumed.trace[: len(killed.trace)] == killed.trace, where
            again = play(PROGRAMS[name], seed=77, journal=resumed.journal)
            assert (again.output, again.trace, again.live) == (resumed.output, resumed.trace, []), where


def test_every_task_counts_for_itself() -> None:
    """Goal: which call is which does not hang on who was faster. Method: branches that wait for real time between their
    calls, so that the order between them is chance; a replay under another timing finds every call again."""

    async def program(world: World) -> Any:
        async def branch(name: str) -> list[Any]:
            seen = []
            for n in range(4):
                await asyncio.sleep(world.delays(name))
                seen.append(await world.look(name, n))
            return seen

        return await asyncio.gather(*(branch(name) for name in "abc"))

    for seed in SEEDS:
        first = play(program, seed=seed)
        again = play(program, seed=seed + 100, journal=first.journal)
        assert (again.output, again.live) == (first.output, [])
        keys = {event.step_key for event, _ in first.journal if isinstance(event, StepFinished)}
        assert len(keys) == 12, "every branch has a scope of its own"


def test_a_busy_call_keeps_nobody_from_his_result() -> None:
    """Goal: only the job's own code is waited for. Method: a call that spins until another result has been seen."""

    async def program(world: World) -> Any:
        seen = asyncio.Event()

        async def spin(_key: str) -> str:
            while not seen.is_set():  # noqa: ASYNC110 - spinning is the point
                await asyncio.sleep(0)
            return "stopped"

        async def other() -> None:
            await world.look("quick")
            seen.set()

        async def busy() -> Any:
            return await world.drive.call(DurableCall("spin", [], spin, READS))

        return (await asyncio.gather(busy(), other()))[0]

    assert play(program, seed=1).output == "stopped"


def test_a_loop_that_hides_its_queue_gets_time() -> None:
    """Goal: order is kept on loops that are not asyncio's own. Method: the ready queue is hidden, all replays."""
    for name in ("gathered", "task_group", "first_come", "locked", "any_io", "nested"):
        for seed in range(4):
            first = play(PROGRAMS[name], seed=seed, hidden=True)
            again = play(PROGRAMS[name], seed=seed + 100, journal=first.journal, hidden=True)
            assert (again.output, again.trace, again.live) == (first.output, first.trace, []), (
                f"{name}, seed {seed}"
            )


def _cut_in_a_call(journal: Journal) -> bool:
    called = {event.step_key for event, _ in journal if isinstance(event, ToolCalled)}
    return called != {event.step_key for event, _ in journal if isinstance(event, ToolReturned)}
