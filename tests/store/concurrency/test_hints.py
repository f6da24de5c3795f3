"""Hints between processes on one SQLite file: they arrive, they wait, and the dead leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import pytest

from holdfast.model.jobs import JobDraft
from holdfast.store.contract import Store
from holdfast.store.sqlite.wakeups import FileWakeups
from tests.store.concurrency.processes import Child, child
from tests.store.concurrency.stores import PATIENCE_S, Place, opened

pytestmark = pytest.mark.store("sqlite")

TOPIC = "queue:q"
DRAFT = JobDraft(kind="work", queue="q")


@pytest.fixture
def place(folder: Path) -> Place:
    return Place("sqlite", str(folder / "store.db"))


@pytest.fixture
def sockets(folder: Path) -> Path:
    """Where the processes on this file listen."""
    return folder / "store.db-wake"


def _start(stack: ExitStack, place: Place, *topics: str) -> Child:
    waiter = stack.enter_context(child("waiter", topics=topics or (TOPIC,), **asdict(place)))
    assert waiter.hear()["pid"] == waiter.pid
    return waiter


async def _heard(waiter: Child) -> list[str]:
    heard: list[str] = (await asyncio.to_thread(waiter.hear))["heard"]
    return heard


async def test_a_write_here_wakes_a_waiter_there(place: Place) -> None:
    """Goal: an idle process learns of work without polling. Method: two processes wait, in any order before or after
    the write that is worth a look; both hear of it, and not of what they did not ask for."""
    with ExitStack() as stack:
        async with opened(place) as store:
            first, second = [await asyncio.to_thread(_start, stack, place) for _ in range(2)]
            first.tell()
            await store.jobs.submit(JobDraft(kind="work", queue="another"))
            await store.jobs.submit(DRAFT)
            second.tell()
            assert await _heard(first) == [TOPIC]
            assert await _heard(second) == [TOPIC], "a hint that came before the wait was kept"


async def test_a_file_in_a_deep_folder_is_heard_too(folder: Path) -> None:
    """Goal: hints do not depend on how long the name of the folder is. Method: a store deeper than any socket's address
    can say; a process that waits there hears a write, the dead are removed, and the last one takes the folder away."""
    deep = folder / "a-folder-of-a-project" / ("deep" * 20) / ("deeper" * 20)
    deep.mkdir(parents=True)
    place = Place("sqlite", str(deep / "store.db"))
    with ExitStack() as stack:
        async with opened(place) as store:
            dead, living = [await asyncio.to_thread(_start, stack, place) for _ in range(2)]
            living.tell()
            dead.kill()
            await store.jobs.submit(DRAFT)
            assert await _heard(living) == [TOPIC]
            assert len(list((deep / "store.db-wake").iterdir())) == 1
            living.tell("enough")
            await asyncio.to_thread(living.wait)
        assert not (deep / "store.db-wake").exists()


async def test_a_store_that_never_waits_is_told_nothing(place: Place, sockets: Path) -> None:
    """Goal: a hundred writers do not write to each other. Method: stores that submit have no socket; the first wait
    makes one, and it is taken away."""
    async with opened(place) as writer:
        async with opened(place) as other:
            await writer.jobs.submit(DRAFT)
            await other.jobs.submit(DRAFT)
            assert not sockets.exists()
            await other.wakeups.wait(frozenset({TOPIC}), 0.0)
            assert len(list(sockets.iterdir())) == 1
            await writer.jobs.submit(DRAFT)
            assert await other.wakeups.wait(frozenset({TOPIC}), PATIENCE_S) == {TOPIC}
        assert not sockets.exists()


async def test_hints_are_kept_between_two_waits(place: Place) -> None:
    """Goal: what is hinted at while nobody waits is not missed. Method: hints of several topics between two waits of a
    process; one wait gets them all, and the next one only what is new."""
    topics = [f"queue:q{n}" for n in range(5)]
    with ExitStack() as stack:
        async with opened(place) as store:
            waiter = await asyncio.to_thread(_start, stack, place, *topics)
            waiter.tell()
            store.wakeups.hint(topics[0])
            assert await _heard(waiter) == [topics[0]]
            for topic in topics[1:4]:
                store.wakeups.hint(topic)
            heard: list[str] = []
            while len(heard) < 3:
                # Each hint is a datagram of its own, so a wait may end between two of them.
                waiter.tell()
                heard += await _heard(waiter)
            assert sorted(heard) == topics[1:4]
            waiter.tell()
            store.wakeups.hint(topics[4])
            assert await _heard(waiter) == [topics[4]]


async def test_a_killed_process_leaves_no_socket(place: Place, sockets: Path) -> None:
    """Goal: the folder does not fill up with the dead. Method: kill a process that listens; the next hint of anybody
    else removes its socket and reaches the living; the last one to leave takes the folder away."""
    with ExitStack() as stack:
        async with opened(place) as store:
            dead, living = [await asyncio.to_thread(_start, stack, place) for _ in range(2)]
            assert len(list(sockets.iterdir())) == 2
            living.tell()
            dead.kill()
            await store.jobs.submit(DRAFT)
            assert await _heard(living) == [TOPIC]
            # The living may hear it first: the sender goes from socket to socket.
            async with asyncio.timeout(30):
                while [path.name.partition("-")[0] for path in sockets.iterdir()] != [str(living.pid)]:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            living.tell("enough")
            await asyncio.to_thread(living.wait)
        assert not sockets.exists()


def test_who_comes_while_the_last_one_leaves_can_hear(folder: Path) -> None:
    """Goal: the folder that the last one takes away is no trap for the next. Method: three threads come and go at the
    same time, some hundred times each, and each looks whether it has a socket."""
    deaf: list[str] = []

    def come_and_go(name: str) -> None:
        for number in range(400):
            wakeups = FileWakeups(folder / "store.db", f"{name}{number}")
            if not wakeups.listen():
                deaf.append(name)
            wakeups.close()

    threads = [threading.Thread(target=come_and_go, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert deaf == []


async def test_a_reader_that_does_not_read_harms_nobody(place: Place, sockets: Path) -> None:
    """Goal: a process that is stuck costs others nothing. Method: a socket whose buffer is full and never emptied lies
    beside ours; writes go on, and a living waiter hears of them."""
    with ExitStack() as stack:
        async with opened(place) as store:
            living = await asyncio.to_thread(_start, stack, place)
            stuck = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            stuck.bind(str(sockets / "1-stuck"))
            filler = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while filler.sendto(b"queue:full", str(sockets / "1-stuck")):
                    pass
            living.tell()
            async with asyncio.timeout(PATIENCE_S):
                await _submit_some(store)
            assert await _heard(living) == [TOPIC]
            assert (sockets / "1-stuck").exists(), "it is not dead, only busy"
            (sockets / "1-stuck").unlink()


async def _submit_some(store: Store) -> None:
    for _ in range(50):
        await store.jobs.submit(DRAFT)
