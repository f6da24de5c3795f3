"""Simulated processes: what is dead stays dead, what is frozen goes on, and nothing cleans up after itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.engine.crash_points import Point, crash_points, store_calls
from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.ids import SequentialIds
from holdfast.model.jobs import JobDraft
from holdfast.store.memory.store import MemoryStore
from holdfast.testing.simulated_process import ProcessLoop
from holdfast.testing.virtual_loop import Deadlock, LoopClock
from tests.support.faulty_store import GO, Fate, FaultyStore, Kind


async def _beat(seen: list[Any], loop: ProcessLoop) -> None:
    try:
        while True:
            await sleep_on_loop(1.0)
            seen.append(loop.time())
    finally:
        seen.append("cleaned up")


def test_a_killed_process_never_runs_again() -> None:
    with ProcessLoop() as loop:
        seen: list[Any] = []
        process = loop.process("victim")
        process.start(_beat(seen, loop))
        loop.root.call_later(2.5, process.kill)
        loop.run_until_complete(sleep_on_loop(10.0))
        assert seen == [1.0, 2.0]


def test_a_frozen_process_goes_on_where_it_was() -> None:
    with ProcessLoop() as loop:
        seen: list[Any] = []
        process = loop.process("sleeper")
        process.start(_beat(seen, loop))
        loop.root.call_later(1.5, process.freeze, 40.0)
        loop.run_until_complete(sleep_on_loop(43.0))
        assert seen == [1.0, 41.5, 42.5]


def test_a_callback_belongs_to_the_one_who_waits_for_it() -> None:
    """A future of the dead that somebody else resolves wakes nobody."""
    with ProcessLoop() as loop:
        seen: list[str] = []
        future: asyncio.Future[None] = loop.create_future()

        async def wait(name: str) -> None:
            await asyncio.shield(future)
            seen.append(name)

        one, two = loop.process("one"), loop.process("two")
        one.start(wait("one"))
        two.start(wait("two"))
        loop.run_until_complete(sleep_on_loop(0.1))
        one.kill()
        future.set_result(None)
        loop.run_until_complete(sleep_on_loop(0.1))
        assert seen == ["two"]


def test_turning_in_circles_is_a_deadlock() -> None:
    async def circle() -> None:
        while True:
            await sleep_on_loop(0.0)

    with ProcessLoop(passes_max=1000) as loop, pytest.raises(Deadlock):
        loop.run_until_complete(circle())


@pytest.mark.parametrize(
    "point, fate, written",
    [
        ("jobs.submit:before", Fate(Kind.REFUSED), 0),
        ("jobs.submit:after", Fate(Kind.LOST), 1),
        ("jobs.submit:before", Fate(Kind.DIES), 0),
        ("jobs.submit:after", Fate(Kind.DIES), 1),
        ("jobs.submit:after", Fate(Kind.FREEZES, 5.0), 1),
    ],
)
@pytest.mark.store("memory")
def test_a_store_fails_at_its_points(point: str, fate: Fate, written: int) -> None:
    with ProcessLoop() as loop:
        inner = MemoryStore(LoopClock(loop), SequentialIds(1))
        process = loop.process("caller")
        store = FaultyStore(inner, lambda at: fate if at == point else GO, process)
        heard: list[Any] = []

        async def submit() -> None:
            try:
                heard.append(await store.jobs.submit(JobDraft(kind="work")))
            except (StoreUnavailable, OutcomeUnknown) as error:
                heard.append(type(error))

        process.start(submit())
        loop.run_until_complete(sleep_on_loop(1.0))
        assert sum(loop.run_until_complete(inner.jobs.counts()).values()) == written
        expected = {Kind.REFUSED: [StoreUnavailable], Kind.LOST: [OutcomeUnknown]}.get(fate.kind, [])
        assert heard == expected
        loop.run_until_complete(sleep_on_loop(10.0))
        assert len(heard) == (0 if fate.kind is Kind.DIES else 1), "the frozen hear it later, the dead never"


def test_every_point_has_a_name_and_a_meaning() -> None:
    points = crash_points()
    assert set(Point) <= points.keys()
    assert {"journal.append_many:before", "leases.claim:after", "post.send:after"} <= points.keys()
    assert len(points) == len(Point) + 2 * len(list(store_calls())) >= 100
    assert all(points.values())
