"""Postgres is restarted and its backends are killed under writers: what was acknowledged is there, once.

Every writer keeps a log of its own: an append is in it exactly when the store said yes. Afterwards the log is compared
with the journals. Nothing else is asked of the writers: no retry, no care. A lost connection is the store's business.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import asyncpg
import pytest

from holdfast.model.append import Append, Extras, Timer, advance_holder
from holdfast.model.hash_chain import Head
from holdfast.model.jobs import JobDraft
from holdfast.store.contract import Store
from holdfast.store.executor import Transaction
from holdfast.store.tables import journal
from holdfast.testing.conformance.driver import Driver, step
from tests.store.concurrency.stores import PATIENCE_S, Place, check_journal, driving, opened, until
from tests.support.servers import PostgresServer, ServerFailed

pytestmark = [pytest.mark.store("postgres"), pytest.mark.xdist_group("durable-postgres")]

WRITERS = 6
BETWEEN = 12
"""Acknowledged appends between two strikes: each of them hits writers at work."""

BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND application_name = 'holdfast'"


class Writer:
    """Appends to its own job until it is told to stop, alone, in batches with a second job, and with rows."""

    def __init__(self, drivers: list[Driver], number: int) -> None:
        self.drivers = drivers
        self.chance = random.Random(number)
        self.acknowledged: list[Append] = []

    async def write(self, store: Store, stop: asyncio.Event) -> None:
        count = 0
        while not stop.is_set():
            count += 1
            appends = [self._append(driver, count) for driver in self.drivers[: self.chance.randint(1, 2)]]
            if len(appends) == 1:
                outcomes = [await store.journal.append(appends[0])]
            else:
                outcomes = [_accepted(outcome) for outcome in await store.journal.append_many(appends)]
            for driver, append, head in zip(self.drivers, appends, outcomes, strict=False):
                assert head == append.head
                driver.holder = advance_holder(driver.holder, append)
                self.acknowledged.append(append)

    def _append(self, driver: Driver, count: int) -> Append:
        if self.chance.random() < 0.3:
            return driver.build(step(f"{count}"), extras=Extras(timers=(Timer(f"{count}/sleep#1", count),)))
        return driver.build(step(f"{count}"), step("and more"))


@pytest.fixture
def recognised(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the appends that came back to a journal which had them already: unknown outcomes, resolved."""
    counted: Counter[str] = Counter()
    explain = journal._explain

    async def counting(tx: Transaction, append: Append) -> Head:
        head = await explain(tx, append)
        counted["recognised"] += 1
        return head

    monkeypatch.setattr(journal, "_explain", counting)
    return counted


def _accepted(outcome: object) -> Head:
    assert isinstance(outcome, Head), f"{outcome!r}"
    return outcome


@pytest.mark.parametrize(
    "restarts, kills, terminations",
    [(3, 5, 3), pytest.param(40, 60, 100, marks=[pytest.mark.chaos, pytest.mark.timeout(1800)])],
)
async def test_what_was_acknowledged_is_there(
    durable_postgres_server: PostgresServer,
    durable_postgres_database: str,
    recognised: Counter[str],
    restarts: int,
    kills: int,
    terminations: int,
) -> None:
    """Goal: no acknowledged append is lost or doubled, and no writer notices more than a delay. Method: immediate
    restarts, backends killed (-9) and terminated in random order under six writers; then logs against journals."""
    server, place = durable_postgres_server, Place("postgres", durable_postgres_database)
    strikes = ["restart"] * restarts + ["kill"] * kills + ["terminate"] * terminations
    random.Random(4).shuffle(strikes)
    async with opened(place) as store:
        drivers = await driving(store, 2 * WRITERS)
        writers = [Writer(drivers[2 * n : 2 * n + 2], n) for n in range(WRITERS)]
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for writer in writers:
                group.create_task(writer.write(store, stop))
            for strike in strikes:
                await _more(writers, f"a {strike}")
                await _strike(server, place, strike)
            await _more(writers, "the end")
            stop.set()

        for writer in writers:
            for driver in writer.drivers:
                await _is_all_there(store, driver, writer.acknowledged)
    print(
        f"{restarts} restarts, {kills} backends killed, {terminations} terminated under {WRITERS} writers:"
        f" {_count(writers)} appends acknowledged, all there; {recognised['recognised']} recognised on retry"
    )


def _count(writers: list[Writer]) -> int:
    return sum(len(writer.acknowledged) for writer in writers)


async def _more(writers: list[Writer], before: str) -> None:
    """The writers are at work: so many more appends were acknowledged."""
    goal = _count(writers) + BETWEEN

    async def reached() -> bool:
        return _count(writers) >= goal

    await until(reached, f"{BETWEEN} more appends before {before}")


async def _strike(server: PostgresServer, place: Place, strike: str) -> None:
    if strike == "restart":
        await asyncio.to_thread(server.restart, immediate=True)
        return
    database = place.address.partition("?")[0].rpartition("/")[2]

    async def hit() -> bool:
        """A backend of the writers was found at work and struck; it may have gone by itself meanwhile."""
        try:
            eyes = await server.connect()
            pids = [row[0] for row in await eyes.fetch(BACKENDS, database)]
            await eyes.close()
            pid = random.choice(pids)
            server.kill_backend(pid) if strike == "kill" else server.terminate_backend(pid)
        except (OSError, IndexError, ServerFailed, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        return True

    await until(hit, "a backend to strike")


async def _is_all_there(store: Store, driver: Driver, acknowledged: list[Append]) -> None:
    """The journal is exactly what was acknowledged, in order: nothing lost, nothing doubled, nothing else."""
    appends = [append for append in acknowledged if append.job_id == driver.job_id]
    expected = [event.hash for append in appends for event in append.events]
    assert (await check_journal(store, driver.job_id))[2:] == expected
    timers = [timer for append in appends for timer in append.extras.timers]
    assert len(await store.post.timers(driver.job_id)) == len(timers)


# ── hints ─────────────────────────────────────────────────────────────────────────────────────────

LISTENING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"


@pytest.mark.parametrize("strike", ["terminate", "kill", "restart"])
async def test_hints_arrive_again_after_the_listener_was_struck(
    durable_postgres_server: PostgresServer, durable_postgres_database: str, strike: str
) -> None:
    """Goal: a waiter survives the loss of its listening connection. Method: strike that connection while somebody
    waits: it is woken once because anything may have happened; and a hint sent later reaches it."""
    server, place, topic = durable_postgres_server, Place("postgres", durable_postgres_database), "queue:q"
    async with opened(place) as waiting, opened(place) as telling:
        assert await waiting.wakeups.wait(frozenset({topic}), 0.0) == frozenset()
        (before,) = await until(lambda: _listeners(server, place), "the first listener")
        waiter = asyncio.create_task(waiting.wakeups.wait(frozenset({topic}), PATIENCE_S))
        if strike == "restart":
            await asyncio.to_thread(server.restart, immediate=True)
        elif strike == "kill":
            server.kill_backend(before)
        else:
            server.terminate_backend(before)
        assert await asyncio.wait_for(waiter, PATIENCE_S) == {topic}, "woken: hints may have been missed"

        async def back() -> bool:
            return await _listeners(server, place) not in ([], [before])

        await until(back, "the listener to come back")
        waiter = asyncio.create_task(waiting.wakeups.wait(frozenset({topic}), PATIENCE_S))
        await telling.jobs.submit(JobDraft(kind="work", queue="q"))
        assert await asyncio.wait_for(waiter, PATIENCE_S) == {topic}


async def _listeners(server: PostgresServer, place: Place) -> list[int]:
    try:
        eyes = await asyncpg.connect(place.address)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return []
    try:
        return [row[0] for row in await eyes.fetch(LISTENING)]
    finally:
        await eyes.close()
