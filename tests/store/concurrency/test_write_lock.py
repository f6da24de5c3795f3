"""The turn to write goes round among processes, and neither death nor sleep can keep it.

The locks are asked from outside (`is_free`, `in_line`), so a test knows that somebody stands in the line without
guessing how long that takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StoreBusy
from holdfast.model.jobs import JobDraft, JobFilter, SubmittedJob
from holdfast.store.contract import Store
from holdfast.store.sqlite import executor
from holdfast.store.sqlite.lock_holders import continue_stopped_writers
from holdfast.store.sqlite.unit_of_work import UnitOfWork
from holdfast.store.sqlite.write_lock import WriteLock
from tests.store.concurrency.children import in_line, is_free
from tests.store.concurrency.processes import child
from tests.store.concurrency.stores import PATIENCE_S, Place, opened, sqlite_of, until

pytestmark = pytest.mark.store("sqlite")

DRAFT = JobDraft(kind="work")
SHORT_S = 0.2
HANG_S = 15.0


@pytest.fixture
def place(folder: Path) -> Place:
    return Place("sqlite", str(folder / "store.db"))


@pytest.fixture
def turnstiles(place: Place) -> Iterator[list[WriteLock]]:
    """Three of them on one file, as three processes would have."""
    three = [WriteLock(Path(place.address)) for _ in range(3)]
    yield three
    for turnstile in three:
        turnstile.close()


def make_patient(store: Store) -> None:
    """Whoever asks this store from now on has time."""
    sqlite_of(store)._patience_s = PATIENCE_S


def entering(turnstile: WriteLock) -> asyncio.Future[None]:
    """Done when the turn is ours. The thread may be left behind: a test that fails must not wait for it."""
    loop = asyncio.get_running_loop()
    inside: asyncio.Future[None] = loop.create_future()

    def enter() -> None:
        turnstile.enter()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(inside.set_result, None)

    threading.Thread(target=enter, daemon=True).start()
    return inside


async def _queued(store: Store) -> bool:
    return len(sqlite_of(store)._queue) > 0


async def _is_set(event: threading.Event) -> bool:
    return event.is_set()


async def _lined_up(place: Place, how_many: int) -> bool:
    return in_line(place) == how_many


# ── whose turn it is ──────────────────────────────────────────────────────────────────────────────


def test_two_stores_in_one_process_exclude_each_other(place: Place, turnstiles: list[WriteLock]) -> None:
    """Goal: the locks belong to a store, not to its process. Method: two turnstiles here, asked without waiting."""
    first, second, _ = turnstiles
    assert first.try_enter()
    assert not second.try_enter()
    assert in_line(place) == 0, "an attempt that failed leaves nothing in the line"
    first.leave()
    assert second.try_enter()
    assert not first.try_enter()
    second.leave()


async def test_nobody_walks_past_the_one_who_waits(place: Place, turnstiles: list[WriteLock]) -> None:
    """Goal: who has just written cannot overtake one that waits. Method: the second stands in the line when the first
    leaves and at once asks again, with and without waiting."""
    first, second, third = turnstiles
    for _ in range(50):
        first.enter()
        waiting = entering(second)
        await until(lambda: _lined_up(place, 1), "the second to stand in the line")
        first.leave()
        assert not first.try_enter(), "the turn can only go to the second"
        again = entering(first)
        await waiting
        assert not third.try_enter()
        second.leave()
        await again
        first.leave()


async def test_turns_come_in_the_order_of_the_line(place: Place) -> None:
    """Goal: first come, first served, whoever the kernel runs first. Method: nine line up one after the other behind
    one that writes, and it lines up behind them; each writes its name and leaves."""
    ten = [WriteLock(Path(place.address)) for _ in range(10)]
    turns: list[int] = []

    async def take(number: int) -> None:
        await entering(ten[number])
        turns.append(number)
        ten[number].leave()

    for _ in range(20):
        turns.clear()
        ten[0].enter()
        tasks: list[asyncio.Task[None]] = []
        for number in range(1, 10):
            tasks.append(asyncio.create_task(take(number)))
            await until(functools.partial(_lined_up, place, number), f"{number} to stand in the line")
        ten[0].leave()
        tasks.append(asyncio.create_task(take(0)))
        await asyncio.gather(*tasks)
        assert turns == [*range(1, 10), 0]
    assert in_line(place) == 0
    for turnstile in ten:
        turnstile.close()


@pytest.mark.parametrize("written", [b"", b"\xff" * 8, b"not a number at all"])
async def test_a_gate_that_somebody_wrote_into(
    place: Place, turnstiles: list[WriteLock], written: bytes
) -> None:
    """Goal: the count of tickets is nothing that a write depends on. Method: overwrite it; the next ones line up."""
    first, second, third = turnstiles
    Path(f"{place.address}-gate").write_bytes(written)
    first.enter()
    waiting = [entering(second)]
    await until(lambda: _lined_up(place, 1), "the second to stand in the line")
    waiting.append(entering(third))
    await until(lambda: _lined_up(place, 2), "the third to stand behind it")
    first.leave()
    await waiting[0]
    assert not waiting[1].done(), "one after the other"
    assert not first.try_enter(), "nobody walks past the line"
    second.leave()
    await waiting[1]
    third.leave()
    assert first.try_enter(), "the line is empty"
    first.leave()


@pytest.mark.parametrize("turns", [300, pytest.param(20_000, marks=pytest.mark.chaos)])
async def test_two_writers_alternate(place: Place, folder: Path, turns: int) -> None:
    """Goal: while both want to write, neither has two turns in a row. Method: two processes that leave only when the
    other stands in the line, and a log of who was inside."""
    log = folder / "turns"
    with ExitStack() as stack:
        told = {"turns": turns, "log": str(log), **asdict(place)}
        pair = [stack.enter_context(child("alternator", name=name, **told)) for name in "ab"]
        for one in pair:
            await asyncio.to_thread(one.hear)
        for one in pair:
            one.tell()
        for one in pair:
            await asyncio.to_thread(one.hear)
    written = log.read_text()
    contested = [letter for letter in written if letter.islower()]
    runs = [len(list(run)) for _, run in itertools.groupby(contested)]
    print(f"{len(contested)} contested turns of {len(written)}; longest run of one process: {max(runs)}")
    assert len(written) == 2 * turns
    assert len(contested) >= turns, "most turns were wanted by both"
    assert max(runs) == 1


# ── death and sleep ───────────────────────────────────────────────────────────────────────────────


async def test_a_killed_holder_frees_the_turn(place: Place, turnstiles: list[WriteLock]) -> None:
    """Goal: kill -9 inside a turn frees it, and in the line lets those behind go on, but not in. Method: one process
    inside, one in the line, we behind it; both are killed."""
    with ExitStack() as stack:
        holder = stack.enter_context(child("turn_holder", **asdict(place)))
        assert await asyncio.to_thread(holder.hear) == {"inside": True}
        waiter = stack.enter_context(child("turn_waiter", **asdict(place)))
        assert await asyncio.to_thread(waiter.hear) == {"asking": True}
        await until(lambda: _lined_up(place, 1), "the other process to stand in the line")
        ours = entering(turnstiles[0])
        await until(lambda: _lined_up(place, 2), "us to stand behind it")
        waiter.kill()
        await until(lambda: _lined_up(place, 1), "our turn to be next")
        assert not turnstiles[1].try_enter()
        assert not ours.done()
        holder.kill()
        await asyncio.wait_for(ours, PATIENCE_S)
    assert not turnstiles[1].try_enter()
    turnstiles[0].leave()
    assert turnstiles[1].try_enter()


async def test_a_process_frozen_inside_its_turn(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: whoever waits for a frozen writer that nobody may continue is told "busy" in time, and its death lets
    everybody go on. Method: freeze a process before its COMMIT; one store gives up, one stays, and then the process is
    killed."""
    key = "half"
    monkeypatch.setattr(executor, "continue_stopped_writers", lambda _: [])
    async with opened(place) as patient, opened(place, patience_s=SHORT_S) as store:
        with child("half_writer", request_key=key, **asdict(place)) as writer:
            assert await asyncio.to_thread(writer.hear) == {"inside": True}
            await asyncio.to_thread(writer.until_stopped)
            stays = asyncio.create_task(patient.jobs.submit(DRAFT))
            with pytest.raises(StoreBusy, match="nothing was written"):
                await asyncio.wait_for(store.jobs.submit(DRAFT), HANG_S)
            make_patient(store)
            assert not stays.done()
            assert await store.jobs.find("default", key) is None, "readers go on, and see nothing of it"
            writer.kill()
        await asyncio.wait_for(stays, PATIENCE_S)
        assert await store.jobs.find("default", key) is None, "what was not committed is not there"
        assert (await store.jobs.submit(JobDraft(kind="work", request_key=key))).created
        assert len(await store.jobs.list(JobFilter())) == 2, "who was told busy wrote nothing"


async def test_a_writer_that_waits_continues_a_stopped_one(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: no stopped process keeps others from writing. Method: stop a process before its COMMIT, which nobody ends
    and nobody wakes; whoever wants to write, or to open the store, must get its turn, and the log says why."""
    key = "half"
    async with opened(place) as store:
        with child("half_writer", request_key=key, **asdict(place)) as writer:
            assert await asyncio.to_thread(writer.hear) == {"inside": True}
            await asyncio.to_thread(writer.until_stopped)
            await asyncio.wait_for(store.jobs.submit(DRAFT), PATIENCE_S)
            assert await asyncio.to_thread(writer.hear) == {"done": True}
        assert await store.jobs.find("default", key) is not None, "the stopped one ended what it had begun"
        assert f"process {writer.pid} was stopped while it held the write lock" in caplog.text


@pytest.mark.parametrize("enter", ["first", "second"])
async def test_a_stopped_process_is_continued_wherever_it_stands(
    place: Place, turnstiles: list[WriteLock], enter: str
) -> None:
    """Goal: inside its turn or in the line for it, a stopped process is found. Method: stop a process that holds the
    turn, or that stands behind ours, and look."""
    ours = turnstiles[0]
    if enter == "second":
        ours.enter()
    with child("turn_waiter", **asdict(place)) as other:
        assert await asyncio.to_thread(other.hear) == {"asking": True}
        if enter == "first":
            assert await asyncio.to_thread(other.hear) == {"inside": True}
        else:
            await until(lambda: _lined_up(place, 1), "the other process to stand in the line")
        os.kill(other.pid, signal.SIGSTOP)
        await asyncio.to_thread(other.until_stopped)
        assert continue_stopped_writers(Path(place.address)) == [other.pid]
        assert continue_stopped_writers(Path(place.address)) == []


async def test_every_caller_has_its_own_patience(place: Place, turnstiles: list[WriteLock]) -> None:
    """Goal: no caller waits for ever. Method: one write after the other joins the queue while a turn never comes; each
    must be told "busy", also those that found the queue not empty."""
    async with opened(place, patience_s=SHORT_S) as store:
        turnstiles[0].enter()
        waiting = [asyncio.create_task(store.jobs.submit(DRAFT))]
        await until(lambda: _lined_up(place, 1), "the first to wait for its turn")
        for _ in range(4):
            waiting.append(asyncio.create_task(store.jobs.submit(DRAFT)))
            with pytest.raises(StoreBusy):
                await asyncio.wait_for(waiting.pop(0), HANG_S)
        with pytest.raises(StoreBusy):
            await asyncio.wait_for(waiting.pop(), HANG_S)
        make_patient(store)
        turnstiles[0].leave()
        await store.jobs.submit(DRAFT)
        assert len(await store.jobs.list(JobFilter())) == 1


async def test_a_store_that_waits_keeps_its_place(place: Place, turnstiles: list[WriteLock]) -> None:
    """Goal: the two threads of a store are one at the turnstile. Method: its writer thread stands in the line when a
    caller gives up and a new one comes; its place must stay taken until the store has had its turn."""
    holder, other, _ = turnstiles
    async with opened(place, patience_s=SHORT_S) as store:
        holder.enter()
        with pytest.raises(StoreBusy):
            await store.jobs.submit(DRAFT)
        make_patient(store)
        await until(lambda: _lined_up(place, 1), "the writer thread to stand in the line")
        sqlite_of(
            store
        )._commit_s = 0.0  # as on a quick disk: the loop's thread would write by itself if it could
        waiting = asyncio.create_task(store.jobs.submit(DRAFT))
        await until(lambda: _queued(store), "the new write to be queued")
        await asyncio.sleep(0)
        assert in_line(place) == 1, "the store gave its place away"
        next_one = entering(other)
        holder.leave()
        await waiting
        await next_one
        other.leave()


async def test_the_writer_thread_holds_its_turn_to_the_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: no transaction runs outside of a turn. Method: at the instant when the writer thread is about to leave,
    another write comes on the loop; wherever and whenever it is done, the turn must be taken."""
    async with opened(place) as store:
        executor = sqlite_of(store)
        leave, commit = executor.write_lock.leave, executor._commit
        loop, came, left = asyncio.get_running_loop(), threading.Event(), threading.Event()
        more: list[asyncio.Task[SubmittedJob]] = []
        outside: list[bool] = []

        def another() -> None:
            executor._commit_s = 0.0
            more.append(loop.create_task(store.jobs.submit(DRAFT)))
            # Some passes of the loop later the write is queued, and somebody has taken it or could not.
            loop.call_soon(loop.call_soon, loop.call_soon, came.set)

        def leaving() -> None:
            if threading.current_thread() is executor._thread and not came.is_set():
                loop.call_soon_threadsafe(another)
                came.wait(SHORT_S)
            leave()
            left.set()

        def committing(batch: Sequence[UnitOfWork[Any]]) -> None:
            if more:
                left.wait(SHORT_S)
            outside.append(is_free(place))
            commit(batch)

        monkeypatch.setattr(executor.write_lock, "leave", leaving)
        monkeypatch.setattr(executor, "_commit", committing)
        await asyncio.gather(*(store.jobs.submit(DRAFT) for _ in range(2)))
        await until(lambda: _is_set(came), "the other write to come")
        await asyncio.gather(*more)
        assert len(outside) >= 2
        assert not any(outside)


async def test_who_has_an_answer_holds_nobody_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a process that is frozen right after its write was answered does not hold the turn. Method: leaving the
    turnstile waits for the answer, in vain."""
    async with opened(place) as store:
        turnstile, answered = sqlite_of(store).write_lock, threading.Event()
        leave, early = turnstile.leave, list[bool]()

        def leaving() -> None:
            early.append(answered.wait(SHORT_S))
            leave()

        monkeypatch.setattr(turnstile, "leave", leaving)
        await asyncio.gather(*(store.jobs.submit(DRAFT) for _ in range(2)))
        answered.set()
        assert early == [False]


async def test_a_caller_whose_loop_is_gone(place: Place, turnstiles: list[WriteLock]) -> None:
    """Goal: a thread that went away while its write waited harms nobody. Method: a loop of its own asks and is closed
    before the turn comes; afterwards the store still writes for others."""
    async with opened(place) as store:
        turnstiles[0].enter()

        def ask_and_go() -> None:
            loop = asyncio.new_event_loop()
            task = loop.create_task(store.jobs.submit(DRAFT))
            loop.run_until_complete(until(lambda: _queued(store), "the write to be queued"))
            loop.close()
            task._log_destroy_pending = False  # type: ignore[attr-defined]

        await asyncio.to_thread(ask_and_go)
        turnstiles[0].leave()
        await store.jobs.submit(DRAFT)
        assert len(await store.jobs.list(JobFilter())) == 2
