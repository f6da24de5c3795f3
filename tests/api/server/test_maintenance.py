"""Maintenance by the API server: work of external agents, and their registry."""

from __future__ import annotations

import logging
import random

import pytest

from holdfast.engine.recovery import RecoveryRules
from holdfast.model.lease import TAKEOVERS_MAX
from holdfast.model.time import DAY, MINUTE, SECOND, to_iso
from holdfast.server.nats_wiring import report_held_work
from holdfast.testing.conformance.harness import Backend
from holdfast.worker.maintenance import EVERY_ROUND, Maintenance, Neighbours
from tests.api.client.job_states import Lives, lives
from tests.worker.test_maintenance import Nobody

pytestmark = pytest.mark.store("sqlite")


def maintenance_of(one: Lives) -> Maintenance:
    return Maintenance(
        *(one.store, one.clock, Neighbours(Nobody()), RecoveryRules(by="the server"), random.random),
        sweep_every_us=EVERY_ROUND,
        fires_schedules=False,
    )


async def found(maintenance: Maintenance) -> int:
    """How many expired leases a round has found."""
    await maintenance.run_round()
    assert maintenance.last is not None
    return maintenance.last.stats.expired_found


async def test_stuck_work_is_pending_again_and_then_a_dead_letter(backend: Backend) -> None:
    """No worker, no other agent: the lease runs out, and who looks sees it pending; with every loss on the record."""
    async with lives(backend) as one:
        maintenance = maintenance_of(one)
        await one.client.register_agent("ant", "t", guid="a1", capabilities=["dig"])
        work_id = (await one.client.submit_work("x", "dig")).id
        for nth in range(TAKEOVERS_MAX):
            (item,) = await one.client.claim_work("a1", lease_seconds=5)
            assert item.attempt == nth + 1
            assert await found(maintenance) == 0
            assert (await one.client.get_work(work_id)).status == "assigned"
            one.clock.advance(6 * SECOND)
            assert await found(maintenance) == 1
            expected = "dead-letter" if nth == TAKEOVERS_MAX - 1 else "pending"
            assert (await one.client.get_work(work_id)).status == expected
        assert await one.client.claim_work("a1") == ()


async def test_work_that_nobody_began_in_time_has_failed(backend: Backend) -> None:
    async with lives(backend) as one:
        maintenance = maintenance_of(one)
        late = await one.client.submit_work("x", "dig", deadline=to_iso(one.clock.wall_us() + MINUTE))
        other = await one.client.submit_work("y", "dig", deadline=to_iso(one.clock.wall_us() + DAY))
        one.clock.advance(MINUTE)
        await maintenance.run_round()
        assert (await one.client.get_work(late.id)).status == "failed"
        assert (await one.client.get_work(other.id)).status == "pending"


async def test_who_was_silent_for_a_day_is_forgotten(backend: Backend) -> None:
    async with lives(backend) as one:
        maintenance = maintenance_of(one)
        await one.client.register_agent("ant", "t", guid="a1")
        one.clock.advance(DAY - SECOND)
        await one.client.register_agent("bee", "t", guid="b1")
        await maintenance.forget_agents()
        assert {seen.entry.guid for seen in await one.store.entries.list()} == {"a1", "b1"}
        one.clock.advance(SECOND)
        await maintenance.forget_agents()
        assert {seen.entry.guid for seen in await one.store.entries.list()} == {"b1"}


async def test_it_is_said_what_became_of_work_in_progress(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    async with lives(backend) as one:
        maintenance = maintenance_of(one)
        await one.client.register_agent("ant", "t", guid="a1", capabilities=["dig"], max_concurrent_tasks=5)
        for _ in range(3):
            await one.client.submit_work("x", "dig")
        await one.client.claim_work("a1", limit=2, lease_seconds=600)
        await one.client.claim_work("a1", lease_seconds=5)
        one.clock.advance(MINUTE)
        with caplog.at_level(logging.INFO, "holdfast.server"):
            await report_held_work(one.store, maintenance)
        assert "work in progress: 2 kept by their agents, 1 released" in caplog.text
