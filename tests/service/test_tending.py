"""What the server does for work and agents while nobody asks."""

from __future__ import annotations

import logging

import pytest

from holdfast.model.lease import TAKEOVERS_MAX
from holdfast.model.time import DAY, MINUTE, SECOND, to_iso
from holdfast.server.maintenance import Tending
from holdfast.testing.conformance.bench import Backend
from tests.client.lives import lives

pytestmark = pytest.mark.store("sqlite")


async def test_stuck_work_is_pending_again_and_then_a_dead_letter(backend: Backend) -> None:
    """No worker, no other agent: the lease runs out, and who looks sees it pending; with every loss on the record."""
    async with lives(backend) as one:
        tending = Tending(one.store, one.clock, None)
        await one.client.register_agent("ant", "t", guid="a1", capabilities=["dig"])
        work_id = (await one.client.submit_work("x", "dig")).id
        for nth in range(TAKEOVERS_MAX):
            (item,) = await one.client.claim_work("a1", lease_seconds=5)
            assert item.attempt == nth + 1
            assert await tending.go() == []
            assert (await one.client.get_work(work_id)).status == "assigned"
            one.clock.advance(6 * SECOND)
            assert len(await tending.go()) == 1
            expected = "dead-letter" if nth == TAKEOVERS_MAX - 1 else "pending"
            assert (await one.client.get_work(work_id)).status == expected
        assert await one.client.claim_work("a1") == ()


async def test_work_that_nobody_began_in_time_has_failed(backend: Backend) -> None:
    async with lives(backend) as one:
        tending = Tending(one.store, one.clock, None)
        late = await one.client.submit_work("x", "dig", deadline=to_iso(one.clock.wall_us() + MINUTE))
        other = await one.client.submit_work("y", "dig", deadline=to_iso(one.clock.wall_us() + DAY))
        one.clock.advance(MINUTE)
        await tending.go()
        assert (await one.client.get_work(late.id)).status == "failed"
        assert (await one.client.get_work(other.id)).status == "pending"


async def test_who_was_silent_for_a_day_is_forgotten(backend: Backend) -> None:
    async with lives(backend) as one:
        tending = Tending(one.store, one.clock, None)
        await one.client.register_agent("ant", "t", guid="a1")
        one.clock.advance(DAY - SECOND)
        await one.client.register_agent("bee", "t", guid="b1")
        await tending.forget()
        assert {seen.entry.guid for seen in await one.store.entries.list()} == {"a1", "b1"}
        one.clock.advance(SECOND)
        await tending.forget()
        assert {seen.entry.guid for seen in await one.store.entries.list()} == {"b1"}


async def test_it_is_said_what_became_of_work_in_progress(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    async with lives(backend) as one:
        tending = Tending(one.store, one.clock, None)
        await one.client.register_agent("ant", "t", guid="a1", capabilities=["dig"], max_concurrent_tasks=5)
        for _ in range(3):
            await one.client.submit_work("x", "dig")
        await one.client.claim_work("a1", limit=2, lease_seconds=600)
        await one.client.claim_work("a1", lease_seconds=5)
        one.clock.advance(MINUTE)
        with caplog.at_level(logging.INFO, "holdfast.server"):
            await tending.judge_again()
        assert "work in progress: 2 kept by their agents, 1 released" in caplog.text
