"""The watchdog: a loop that stands still is told so once, with where it stands, and once more when it goes on."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.engine.execution import Execution
from holdfast.engine.lease_renewal import LeaseRenewal
from holdfast.model.time import MILLISECOND
from holdfast.testing.conformance.harness import Backend
from holdfast.worker.watchdog import PATIENCE_ROUNDS, Watchdog
from holdfast.worker.worker import Worker
from tests.engine.shop import Shop, opened
from tests.worker.test_worker import ended

MEMORY = pytest.mark.parametrize("backend", ["memory"], indirect=True)

TTL_US = 1200 * MILLISECOND
PATIENCE_S = 60.0

_tokens = itertools.count(1)


class Ear(logging.Handler):
    """What the dog says. The nth word may release somebody."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []
        self.tell: Callable[[str], None] = lambda _word: None

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())
        self.tell(self.heard[-1])


@contextmanager
def listening() -> Iterator[Ear]:
    ear, log = Ear(), logging.getLogger("holdfast.watchdog")
    log.addHandler(ear)
    try:
        yield ear
    finally:
        log.removeHandler(ear)


class Patient(Watchdog):
    """Opens a gate after twice as many rounds as it takes to say something."""

    def __init__(self, gates: list[threading.Event]) -> None:
        self._gates = gates
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "_rounds" and value == 2 * PATIENCE_ROUNDS:
            next(gate for gate in self._gates if not gate.is_set()).set()


def watched(shop: Shop, dog: Watchdog) -> Worker:
    desk = shop.desk()
    renewal = LeaseRenewal("worker", desk.clock, lambda: f"lease-{next(_tokens)}", ttl_us=TTL_US)
    return Worker(desk, "worker", lambda: f"claim-{next(_tokens)}", renewal=renewal, watchdog=dog)


def dogs() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "holdfast-watchdog"]


BLOCKS = "held_up_right_here"


def held_up_right_here(gate: threading.Event) -> None:
    assert gate.wait(PATIENCE_S), "nobody noticed"


@MEMORY
async def test_a_blocked_loop_is_noticed_once_and_so_is_its_end(backend: Backend) -> None:
    """Goal: one warning with the stack of what blocks, one when it is over, each time. Method: a program blocks the
    loop on a lock that only the dog opens, a good while after its warning, and then does so again."""
    with listening() as ear:
        async with opened(backend) as shop:
            gates = [threading.Event(), threading.Event()]
            over = asyncio.Event()
            loop = asyncio.get_running_loop()

            def tell(word: str) -> None:
                if "runs again" in word:
                    loop.call_soon(over.set)

            ear.tell = tell

            async def blocking(_drive: Execution, _given: Any) -> None:
                for gate in gates:
                    over.clear()
                    held_up_right_here(gate)
                    await over.wait()

            job_id = await shop.submit(blocking)
            worker = watched(shop, Patient(gates))
            working = asyncio.create_task(worker.work())
            await ended(shop, job_id)
            worker.drain()
            await working
    # On a machine that is busy enough the loop may be late without us; that is said too, and has another stack.
    barks = [word for word in ear.heard if BLOCKS in word]
    assert len(barks) == len(gates), "once for each time, and it says where"
    assert all("has not answered for" in word for word in barks)
    assert ["runs again" in word for word in ear.heard] == [False, True] * (len(ear.heard) // 2)


async def test_it_says_nothing_of_a_loop_that_turns() -> None:
    """As many rounds as it would take, and more, while the loop answers; and then the dog is gone."""
    answers = itertools.count(1)
    enough = asyncio.Event()

    class Counted(Watchdog):
        def _note_answer(self) -> None:
            super()._note_answer()
            if next(answers) > 2 * PATIENCE_ROUNDS:
                enough.set()

    with listening() as ear:
        dog = Counted()
        dog.start(asyncio.get_running_loop(), TTL_US)
        (watching,) = dogs()
        await enough.wait()
        dog.stop()
        await asyncio.to_thread(watching.join)
    assert ear.heard == []


@MEMORY
async def test_a_worker_takes_its_dog_with_it(backend: Backend) -> None:
    async with opened(backend) as shop:
        worker = watched(shop, Watchdog())
        working = asyncio.create_task(worker.work())

        async def quick(_drive: Execution, _given: Any) -> None:
            assert len(dogs()) == 1

        await ended(shop, await shop.submit(quick))
        (watching,) = dogs()
        worker.drain()
        await working
        await asyncio.to_thread(watching.join)


def test_a_loop_that_was_closed_is_not_watched_any_more() -> None:
    """The dog of a process that ends without a word ends too, and does not bark at the dead."""
    with listening() as ear:
        loop = asyncio.new_event_loop()
        Watchdog().start(loop, TTL_US)
        (watching,) = dogs()
        loop.close()
        watching.join()
    assert ear.heard == []
