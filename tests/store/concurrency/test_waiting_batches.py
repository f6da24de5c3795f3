"""A batch of appends that has to wait for somebody's write of the same heads finds them as they are afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from holdfast.errors import Fenced
from holdfast.model.append import Append, Move, append_of
from holdfast.model.events import JobReleased
from holdfast.model.states import Status
from holdfast.testing.conformance.driver import Driver, step
from tests.store.concurrency.stores import Place, check_journal, driving, opened, until

pytestmark = pytest.mark.store("postgres")

_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def one_fact(driver: Driver) -> Append:
    return driver.build(step("one"))


def two_facts(driver: Driver) -> Append:
    return append_of(driver.holder, [step("one"), step("two")], at=1)


def a_move(driver: Driver) -> Append:
    return driver.build(JobReleased(), move=Move(status=Status.PENDING))


@pytest.mark.parametrize("build", [one_fact, two_facts, a_move])
@pytest.mark.parametrize("change", ["lease_expires_at = lease_expires_at + 1", "fence = fence + 1"])
async def test_a_batch_meets_a_renewal_and_a_takeover(
    postgres_database: str, build: Any, change: str
) -> None:
    """Goal: a fact is written with its head or not at all. Method: somebody has changed one of the heads and not
    committed yet; the batch waits, then each of its appends is whole or refused, and all journals hold."""
    async with opened(Place("postgres", postgres_database)) as store:
        drivers = await driving(store, 4)
        other = await asyncpg.connect(postgres_database, server_settings={"search_path": "holdfast"})
        async with other.transaction():
            await other.execute(f"UPDATE job_heads SET {change} WHERE job_id = $1", drivers[1].job_id)
            batch = asyncio.create_task(store.journal.append_many([build(driver) for driver in drivers]))
            watcher = await asyncpg.connect(postgres_database)

            async def waits() -> bool | None:
                return (await watcher.fetchval(_WAITING)) > 0 or None

            await until(waits, "the batch waits for the other's write")
        outcomes = await batch
        await watcher.close()
        await other.close()
        refused = [isinstance(outcome, Fenced) for outcome in outcomes]
        assert refused == [False, "fence" in change, False, False]
        for driver in drivers:
            await check_journal(store, driver.job_id)
