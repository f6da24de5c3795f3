"""Timers of a job's own code strike where they struck the first time, whatever the clock says in replay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.engine.durable_call import READS, DurableCall
from holdfast.model.events import CallCancelled
from holdfast.testing.virtual_loop import SimLoop
from tests.engine.replay.stage import Played, World, play


async def _timed(world: World, name: str, seconds: float) -> Any:
    """A read that takes exactly so long."""

    async def run(_key: str) -> str:
        world.live.append(name)
        await asyncio.sleep(seconds)
        return name

    value = await world.drive.call(DurableCall(name, [], run, READS))
    world.see(value)
    return value


async def _at_most(world: World, name: str, seconds: float, limit: float) -> Any:
    try:
        return await asyncio.wait_for(_timed(world, name, seconds), limit)
    except TimeoutError:
        world.see(f"gave {name} up")
        return None


def _stand_still(seconds: float) -> None:
    """The process is stopped for so long: all its timers are due when it goes on."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    loop._virtual.now += seconds


Program = Callable[[World], Coroutine[Any, Any, Any]]


def _same_again(program: Program, *, hidden: bool = False) -> Played:
    first = play(program, seed=1, hidden=hidden)
    again = play(program, seed=2, journal=first.journal, hidden=hidden)
    assert (again.output, again.trace, again.live) == (first.output, first.trace, [])
    assert again.journal == first.journal
    return first


@pytest.mark.parametrize("hidden", [False, True])
def test_a_replay_slower_than_a_timeout_goes_the_same_way(hidden: bool) -> None:
    """Goal: no timer beats a recorded result. Method: the process stands still between setting the timer and the
    result's turn, for four times as long as the timer."""
    times: list[int] = []

    async def program(world: World) -> Any:
        async def other() -> None:
            await asyncio.sleep(0)
            _stand_still(12.0 if times else 0.0)
            times.append(1)
            await _timed(world, "other", 0.1)

        return await asyncio.gather(_at_most(world, "call", 0.3, 3.0), other())

    assert _same_again(program, hidden=hidden).output[0] == "call"
    assert len(times) == 2


async def two_timers(world: World) -> Any:
    async def late() -> Any:
        await _timed(world, "before", 2.5)
        return await _at_most(world, "short", 0.9, 1.0)

    return await asyncio.gather(_at_most(world, "long", 10.0, 3.0), late())


@pytest.mark.parametrize("hidden", [False, True])
def test_a_replay_quicker_than_the_first_run_goes_the_same_way(hidden: bool) -> None:
    """Goal: which of two timers strikes first is what it was, although in replay both are set at once. Method: the
    short one was set late the first time, and its call was in time."""

    first = _same_again(two_timers, hidden=hidden)
    assert first.output == [None, "short"]
    assert first.trace == ["before", "gave long up", "short"]


def test_of_nested_timers_the_same_one_strikes() -> None:
    """The outer one struck first, because the inner one was set late."""

    async def program(world: World) -> Any:
        async def inside() -> Any:
            await _timed(world, "before", 2.5)
            return await _at_most(world, "inner", 10.0, 3.0)

        try:
            async with asyncio.timeout(5.0):
                await asyncio.gather(inside(), _timed(world, "beside", 9.0))
        except TimeoutError:
            world.see("gave all up")
        return await _timed(world, "after", 0.1)

    first = _same_again(program)
    assert first.trace == ["before", "gave all up", "after"]
    given_up = [event for event, _ in first.journal if isinstance(event, CallCancelled)]
    assert {event.step_key.rpartition("/")[2] for event in given_up} == {"inner#1", "beside#1"}


def test_a_replay_does_not_wait_for_time_outs() -> None:
    job_times: list[float] = []
    clock_times: list[float] = []

    async def program(world: World) -> Any:
        loop = asyncio.get_running_loop()
        began, clock_began = loop.time(), world.drive.clock.tick_us()
        await asyncio.gather(*(_at_most(world, f"slow {n}", 60.0, 30.0 + n) for n in range(3)))
        job_times.append(loop.time() - began)
        clock_times.append((world.drive.clock.tick_us() - clock_began) / 1e6)

    _same_again(program)
    assert job_times == [32.0, 32.0]
    assert clock_times == [32.0, 0.0]


def test_code_that_spins_until_its_timer_strikes_is_ended() -> None:
    async def program(world: World) -> Any:
        async def spin() -> None:
            while True:
                _stand_still(0.01)
                await asyncio.sleep(0)

        try:
            async with asyncio.timeout(1.0):
                await asyncio.gather(spin(), _timed(world, "call", 10.0))
        except TimeoutError:
            return "ended"

    assert play(program, seed=1).output == "ended"


def test_a_timer_inside_a_call_is_the_calls_own() -> None:
    """It strikes by the clock while the job's code is busy or replaying, and is not counted among the code's."""

    async def program(world: World) -> Any:
        async def run(_key: str) -> str:
            try:
                await asyncio.wait_for(asyncio.sleep(10), 1.0)
            except TimeoutError:
                return "in time"
            return "late"

        said = await world.drive.call(DurableCall("call", [], run, READS))
        await asyncio.sleep(1.0)
        return [said, await _at_most(world, "slow", 10.0, 1.0)]

    first = _same_again(program)
    assert first.output == ["in time", None]
    assert [type(event) for event, _ in first.journal].count(CallCancelled) == 1
