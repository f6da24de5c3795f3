"""What a claim and a sweep take of their database, in statements. The figures may fall, and are then lowered; they do
not rise.

On Postgres each statement is a round trip, BEGIN and COMMIT among them; they are counted by the driver and by SQLite
itself, so nothing that is sent is missed. Hints go out after the commit, for whoever waits, and are not counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import apsw
import pytest

from holdfast.client.in_process import EmbeddedClient
from holdfast.engine.recovery import sweep
from holdfast.model.append import Holder, append_of
from holdfast.model.events import CheckpointSaved, StepFinished
from holdfast.model.hash_chain import Head
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobDraft
from holdfast.store.contract import Store
from holdfast.store.ports.leases import ClaimRequest
from holdfast.store.postgres.executor import PostgresExecutor
from holdfast.store.sql.dialect import POSTGRES
from holdfast.store.sql.loader import load_statements
from holdfast.store.sqlite.executor import SqliteExecutor
from holdfast.store.tables.store import SqlStore
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import opened

pytestmark = pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True)

JOBS = 1000
SWEEP_OF_1000 = {"sqlite": 5, "postgres": 4}
"""The transaction, the heads, and what is written: on SQLite heads and events, for all jobs of one worker."""

CLAIM = {"sqlite": 7, "postgres": 1}
"""With the journals of new jobs, which nobody has to read afterwards."""

CLAIM_OF_NOTHING = {"sqlite": 4, "postgres": 2}
"""Who is granted nothing may have been granted it before: that is looked up."""

RESUME_FROM_A_CHECKPOINT = 1
"""Its beginning and its end, at once: where the checkpoint is, and what follows it."""

CLAIM_OF_AN_AGENT = {"sqlite": 9, "postgres": 2}
"""By one that lives elsewhere: what it is registered as, and a claim that counts what it holds."""

BESIDE = ("pg_notify", "typeinfo", "'jit'")
"""Hints, which nobody waits for, and what the driver asks once on each connection."""


@asynccontextmanager
async def counted(store: Store) -> AsyncIterator[list[str]]:
    """The statements that the store sends inside the block."""
    assert isinstance(store, SqlStore)
    said: list[str] = []
    executor = store.executor
    if isinstance(executor, SqliteExecutor):

        def note(event: dict[str, str]) -> None:
            said.append(event["sql"])

        executor.writer.trace_v2(apsw.SQLITE_TRACE_STMT, note)
        yield said
        executor.writer.trace_v2(0)
        return
    assert isinstance(executor, PostgresExecutor)
    connections = [connection for connection, _ in executor.connections._idle]

    def hear(record: object) -> None:
        query: str = record.query  # type: ignore[attr-defined]
        if not any(word in query for word in BESIDE):
            said.append(query)

    for connection in connections:
        connection.add_query_logger(hear)
    yield said
    await asyncio.sleep(0)  # the driver tells on the next pass of the loop
    for connection in connections:
        connection.remove_query_logger(hear)


def _ask(token: str, limit: int, ttl_us: int = 60_000_000) -> ClaimRequest:
    return ClaimRequest(worker="worker", token=token, queues=("default",), limit=limit, ttl_us=ttl_us)


async def test_a_sweep_takes_as_much_for_a_thousand_as_for_one(backend: Backend) -> None:
    async with opened(backend) as shop:
        await shop.store.jobs.submit_many([JobDraft(kind="work") for _ in range(JOBS)])
        for jobs in (1, JOBS - 1):
            assert len(await shop.store.leases.claim(_ask(f"sweep-{jobs}", jobs, ttl_us=0))) == jobs
            async with counted(shop.store) as said:
                stats = await sweep(shop.store, shop.clock)
            assert (stats.recovered, stats.errors) == (jobs, 0)
            assert len(said) == SWEEP_OF_1000[backend.name], "\n".join(said)


async def test_a_claim(backend: Backend) -> None:
    async with opened(backend) as shop:
        await shop.store.jobs.submit_many([JobDraft(kind="work") for _ in range(20)])
        for limit in (1, 19):
            async with counted(shop.store) as said:
                granted = await shop.store.leases.claim(_ask(f"claim-{limit}", limit))
            assert len(granted) == limit
            assert len(said) <= CLAIM[backend.name] + (2 * (limit - 1) if backend.name == "sqlite" else 0), (
                "\n".join(said)
            )
        async with counted(shop.store) as said:
            assert await shop.store.leases.claim(_ask("too late", 1)) == []
        assert len(said) == CLAIM_OF_NOTHING[backend.name], "\n".join(said)


async def test_a_checkpoint_near_the_end_is_read_with_all_that_follows_it(backend: Backend) -> None:
    """However long the journal is before it."""
    async with opened(backend) as shop:
        for steps in (1, 100):
            job_id, holder = await _held(shop.store)
            facts = [StepFinished(f"0/look#{number}", "0" * 64) for number in range(steps)]
            append = append_of(holder, [*facts, CheckpointSaved(1), StepFinished("1/look#1", "0" * 64)], at=1)
            await shop.store.journal.append(append)
            await shop.store.journal.since_commit(job_id)  # who asks first prepares the statement
            async with counted(shop.store) as said:
                sealed = await shop.store.journal.since_commit(job_id)
            assert [event.seq for event in sealed] == [1, 2 + steps, 3 + steps, 4 + steps]
            assert len(said) == RESUME_FROM_A_CHECKPOINT, said


async def test_postgres_sorts_no_journal(backend: Backend) -> None:
    """A server that knows nothing yet of its tables takes every journal for a short one, and would sort a long one on
    disk. It is not asked to, in whatever way it finds the rows; they are put in order here."""
    async with opened(backend) as shop:
        job_id, holder = await _held(shop.store)
        facts = [StepFinished(f"0/look#{number}", "0" * 64) for number in range(100)]
        await shop.store.journal.append(append_of(holder, facts, at=1))
        sealed = await shop.store.journal.read(job_id)
        assert [event.seq for event in sealed] == list(range(1, 103))
        assert isinstance(shop.store, SqlStore)
        if isinstance(shop.store.executor, PostgresExecutor):
            text = load_statements(POSTGRES)["load_journal"].text
            async with shop.store.executor.connections.acquire() as connection, connection.transaction():
                await connection.execute("SET LOCAL enable_indexscan = off")
                plan = await connection.fetch(f"EXPLAIN {text}", job_id, 0, 2**62)
            assert not [line for (line,) in plan if "Sort" in line]


async def _held(store: Store) -> tuple[str, Holder]:
    """A new job, and who may write to its journal."""
    submitted = await store.jobs.submit(JobDraft(kind="work"))
    (grant,) = await store.leases.claim(_ask(f"of {submitted.job_id}", 1))
    head = Head(grant.head_seq, grant.head_hash)
    return grant.job_id, Holder(grant.job_id, grant.namespace, grant.fence, grant.lease_token, head)


async def test_a_claim_of_an_agent_that_lives_elsewhere(backend: Backend) -> None:
    async with opened(backend) as shop:
        client = EmbeddedClient(shop.store, shop.clock, RandomIds())
        client.api.chance = lambda: 0.5
        agent = await client.register_agent("ant", "bench", capabilities=["dig"])
        await client.submit_work("a hole", "dig")
        async with counted(shop.store) as said:
            assert len(await client.claim_work(agent.guid)) == 1
        assert len(said) <= CLAIM_OF_AN_AGENT[backend.name], "\n".join(said)
