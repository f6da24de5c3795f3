"""A job that is over, replayed as a check: nothing is called, and code that has changed is told where."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.engine.execution import Execution
from holdfast.engine.replay_check import ReplayedStep, replay
from holdfast.engine.suspension import sleep
from holdfast.errors import InvalidMove
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import MailKind, Status
from holdfast.model.time import HOUR
from holdfast.testing.conformance.harness import Backend
from tests.engine.replay.finished_jobs import Stage
from tests.engine.replay.programs import PROGRAMS
from tests.engine.replay.stage import World
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES, backend, postgres_template

__all__ = ["backend", "postgres_template"]


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_finished_job_replays_to_the_same_end(stage: Stage, name: str) -> None:
    """Goal: zero live calls, the same way, the same output. Method: every program under several timings, driven by a
    worker and replayed under another timing."""
    for seed in range(5):
        stage.trace.clear()
        job_id = stage.finish(PROGRAMS[name], seed)
        way = list(stage.trace)
        assert stage.live, "the first time it was done for real"
        replayed = stage.replay(job_id, PROGRAMS[name])
        assert replayed.same, f"seed {seed}: {replayed.difference}"
        assert (stage.live, stage.trace, replayed.status) == ([], way, Status.COMPLETED)
        assert replayed.steps > 0


async def original(world: World) -> Any:
    first = await world.look("first")
    await world.act("mail", first)
    return await world.look("last")


async def renamed_effect(world: World) -> Any:
    first = await world.look("first")
    await world.act("post", first)
    return await world.look("last")


async def other_arguments(world: World) -> Any:
    await world.look("first")
    await world.act("mail", "something else")
    return await world.look("last")


async def another_read(world: World) -> Any:
    first = await world.look("primary")
    await world.act("mail", first)
    return await world.look("last")


async def one_call_less(world: World) -> Any:
    first = await world.look("first")
    await world.act("mail", first)
    return "look:last"


async def one_call_more(world: World) -> Any:
    return [await original(world), await world.look("extra")]


async def other_output(world: World) -> Any:
    await original(world)
    return "other"


async def raising(world: World) -> Any:
    await original(world)
    raise LookupError("new bug")


CHANGED = [
    (renamed_effect, "another call than the recorded one", "0/mail#1", "0/post#1"),
    (other_arguments, "with other arguments", "0/mail#1", "0/mail#1"),
    (another_read, "with other arguments", "0/look#1", "0/look#1"),
    (one_call_less, "no longer makes a recorded call", "0/look#2", None),
    (one_call_more, "a call that is not recorded", None, "0/look#3"),
    (other_output, "the code returned", None, None),
    (raising, "raised LookupError: new bug", None, None),
]


@pytest.mark.parametrize(
    "changed, why, recorded, attempted", CHANGED, ids=[change[0].__name__ for change in CHANGED]
)
def test_changed_code_is_told_where(
    stage: Stage, changed: Any, why: str, recorded: str | None, attempted: str | None
) -> None:
    """Change the code of a finished job: the report names the first step that differs, and nothing is called."""
    job_id = stage.finish(original)
    replayed = stage.replay(job_id, changed)
    difference = replayed.difference
    assert difference is not None
    assert why in difference.why
    assert (_key(difference.recorded), _key(difference.attempted)) == (recorded, attempted)
    assert stage.live == []


def _key(step: ReplayedStep | None) -> str | None:
    return None if step is None else step.step_key


def test_the_first_of_several_differences_is_told(stage: Stage) -> None:
    """Everything after a changed call differs as well: what is told is the call."""

    async def three(world: World) -> Any:
        return [await world.look(name) for name in ("a", "b", "c")]

    async def other(world: World) -> Any:
        return [await world.look(name) for name in ("a", "B", "C")]

    difference = stage.replay(stage.finish(three), other).difference
    assert difference is not None
    assert difference.attempted is not None
    assert (difference.attempted.step_key, difference.attempted.args) == ("0/look#2", ["B"])
    assert difference.recorded is not None
    assert difference.recorded.seq == 4


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_replay_from_every_store(backend: Backend) -> None:
    """Goal: replay reads and nothing else. Method: a job that sleeps, fails, is tried again and completes; afterwards
    the journal is as it was."""
    async with opened(backend) as shop:
        tries = iter([ZeroDivisionError("once"), None])

        def flaky() -> str:
            if (error := next(tries)) is not None:
                raise error
            return "fine"

        async def errand(drive: Execution, given: Any) -> Any:
            first = await shop.look(drive, "first")
            await sleep(drive, HOUR)
            try:
                return [given, first, await shop.look(drive, "flaky", flaky)]
            except ZeroDivisionError:
                await shop.look(drive, "apology")  # of the first attempt only: the replay does not come here
                raise

        job_id = await shop.submit(errand, "hello")
        ends = []
        for _ in range(3):
            ends.append(await (await shop.claim()).go())
            backend.clock.advance(2 * HOUR)
        assert ends == ["waiting", "pending", "completed"]
        before, done = await shop.store.journal.read(job_id), dict(shop.done)
        replayed = await replay(shop.store, job_id, errand, clock=backend.clock)
        assert replayed.same, replayed.difference
        assert replayed.output == ["hello", "FIRST", "fine"]
        assert (await shop.store.journal.read(job_id), dict(shop.done)) == (before, done)


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_a_cancelled_job_replays_to_where_it_was_cut(backend: Backend) -> None:
    """A job that was cancelled while it slept: its replay comes as far, and asks for nothing that is not there."""
    async with opened(backend) as shop:

        async def sleeper(drive: Execution, _: Any) -> Any:
            await shop.look(drive, "first")
            await sleep(drive, HOUR)
            return await shop.look(drive, "never")

        async def other(drive: Execution, _: Any) -> Any:
            await sleep(drive, HOUR)

        job_id = await shop.submit(sleeper)
        assert await (await shop.claim()).go() == "waiting"
        with pytest.raises(InvalidMove, match="only a job that has ended"):
            await replay(shop.store, job_id, sleeper, clock=backend.clock)
        await _cancel(shop, job_id)
        assert await (await shop.claim()).go() == "cancelled"
        assert (await replay(shop.store, job_id, sleeper, clock=backend.clock)).same
        difference = (await replay(shop.store, job_id, other, clock=backend.clock)).difference
        assert difference is not None
        assert _key(difference.recorded) == "0/look#1"
        assert shop.done == {"first": 1}


async def _cancel(shop: Shop, job_id: str) -> None:
    await shop.store.post.send(MailDraft(job_id=job_id, kind=MailKind.CANCEL, operation_id="op"))


def test_records_beside_a_new_call_are_handed_back(stage: Stage) -> None:
    """Goal: the whole record is used, whoever comes to its end first. Method: one of two branches has become longer;
    the other still gets what it got."""

    async def branch(world: World, name: str, steps: int) -> None:
        for n in range(steps):
            world.see(await world.look(name, n))

    async def even(world: World) -> Any:
        await asyncio.gather(branch(world, "x", 2), branch(world, "y", 2))

    async def longer(world: World) -> Any:
        await asyncio.gather(branch(world, "x", 3), branch(world, "y", 2))

    job_id = stage.finish(even)
    way = list(stage.trace)
    difference = stage.replay(job_id, longer).difference
    assert difference is not None
    assert (_key(difference.attempted) or "").endswith("/look#3")
    assert (stage.trace, stage.live) == (way, [])
