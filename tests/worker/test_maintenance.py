"""Maintenance loop: the duties of a process towards its store."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest

from holdfast.client.in_process import EmbeddedClient
from holdfast.engine.execution import Execution
from holdfast.engine.recovery import RecoveryRules, find_last_sweep
from holdfast.errors import StoreUnavailable
from holdfast.model.crash_suspects import UNCLAIMED_US
from holdfast.model.events import JobClaimed, JobRequeued
from holdfast.model.ids import SequentialIds
from holdfast.model.states import Status, WaitReason
from holdfast.model.time import DAY, MINUTE, SECOND
from holdfast.model.worker_identity import Identity, ProcessStatus
from holdfast.store.interceptor import InterceptedStore
from holdfast.testing.conformance.harness import Backend
from holdfast.worker.maintenance import EXPIRY_EVERY_US, SWEEP_EVERY_US, Maintenance, Neighbours
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)


class Nobody:
    """A host that cannot tell processes apart."""

    def here(self) -> Identity | None:
        return None

    def look_up(self, _pid: int) -> int | ProcessStatus:
        return ProcessStatus.UNKNOWN


def maintenance_of(shop: Shop, by: str = "sweep of a", **options: Any) -> Maintenance:
    return Maintenance(
        shop.store, shop.clock, Neighbours(Nobody()), RecoveryRules(by=by), random.random, **options
    )


async def nothing(_drive: Execution, _: Any) -> None: ...


async def test_a_sweep_every_half_minute(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "holdfast.maintenance")
    async with opened(backend) as shop:
        maintenance = maintenance_of(shop)
        job_id = await shop.submit(nothing)
        await shop.claim(ttl_us=SECOND)
        shop.clock.advance(SWEEP_EVERY_US - 1)
        await maintenance.run_round()
        assert not maintenance.last, "not yet"
        assert (await shop.store.jobs.head(job_id)).status is Status.RUNNING
        shop.clock.advance(1)
        await maintenance.run_round()
        assert maintenance.last is not None
        assert (maintenance.last.stats.expired_found, maintenance.last.stats.recovered) == (1, 1)
        assert (await shop.store.jobs.head(job_id)).status is Status.PENDING
        assert "jobs whose worker died: 1; requeued 1" in caplog.text
        told = await find_last_sweep(shop.store)
        assert told == maintenance.last
        assert told.by == "sweep of a"
        caplog.clear()
        shop.clock.advance(SWEEP_EVERY_US)
        await maintenance.run_round()
        assert maintenance.last.stats.expired_found == 0
        assert caplog.text == "", "nothing found, nothing said"
        assert await find_last_sweep(shop.store) == told, "the last one that found something"


async def test_a_swept_job_that_is_then_claimed_counts_one_takeover(backend: Backend) -> None:
    """Lose a worker: whether a sweep or a claim comes first, or both, it is one takeover, and the place in the queue is
    kept."""
    async with opened(backend) as shop:
        maintenance = [maintenance_of(shop, f"sweep of {name}") for name in "ab"]
        job_id = await shop.submit(nothing)
        ready_at = (await shop.store.jobs.head(job_id)).ready_at
        for takeovers in (1, 2):
            await shop.claim(worker="lost", ttl_us=SECOND)
            shop.clock.advance(SWEEP_EVERY_US)
            for one in maintenance:
                await one.run_round()
            head = await shop.store.jobs.head(job_id)
            assert (head.status, head.takeovers, head.ready_at) == (Status.PENDING, takeovers, ready_at)
        assert [one.last.stats.expired_found for one in maintenance if one.last] == [1, 0], (
            "they share the work"
        )
        run = await shop.claim(worker="heir")
        assert (run.grant.takeover, run.grant.takeovers) == (False, 2)
        facts = await shop.events(job_id)
        counted = [fact for fact in facts if isinstance(fact, JobClaimed | JobRequeued) and fact.takeover]
        assert len(counted) == 2
        assert await run.go() == "completed"


async def test_a_claim_before_the_sweep_leaves_it_nothing(backend: Backend) -> None:
    async with opened(backend) as shop:
        maintenance = maintenance_of(shop)
        await shop.submit(nothing)
        await shop.claim(worker="lost", ttl_us=SECOND)
        shop.clock.advance(SWEEP_EVERY_US)
        heir = await shop.claim(worker="heir", ttl_us=MINUTE)
        assert (heir.grant.takeover, heir.grant.takeovers) == (True, 1)
        await maintenance.run_round()
        assert maintenance.last is not None
        assert maintenance.last.stats.expired_found == 0
        assert await heir.go() == "completed"


async def test_a_job_that_keeps_losing_its_workers_is_not_held(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be the victim of another. A process that cannot isolate it says who can."""
    async with opened(backend) as shop:
        maintenance = maintenance_of(shop, leaves_suspects=True)
        job_id = await shop.submit(nothing)
        for _ in range(3):
            await shop.claim(worker="lost", ttl_us=SECOND)
            shop.clock.advance(SWEEP_EVERY_US)
            await maintenance.run_round()
        head = await shop.store.jobs.head(job_id)
        assert (head.status, head.takeovers) == (Status.PENDING, 3)
        said = [line for line in caplog.messages if "isolate it" in line]
        assert len(said) == 2, "from the second death on"
        assert "Start one: holdfast worker" in said[0]


async def test_a_suspect_that_no_worker_takes_needs_attention(backend: Backend) -> None:
    """It is listed with its deaths and what to type, until a worker has it."""
    async with opened(backend) as shop:
        client = EmbeddedClient(shop.store, shop.clock, SequentialIds())
        maintenance = maintenance_of(shop, leaves_suspects=True)
        job_id = await shop.submit(nothing)
        for worker in ("first", "second"):
            await shop.claim(worker=worker, ttl_us=SECOND)
            shop.clock.advance(SWEEP_EVERY_US)
            await maintenance.run_round()
        shop.clock.advance(UNCLAIMED_US - 1)
        assert await client.waiting_for_person() == ()
        shop.clock.advance(1)
        (need,) = await client.waiting_for_person()
        assert (need.job_id, need.job_status, need.reason) == (job_id, Status.PENDING, WaitReason.SUSPECT)
        assert (
            need.what
            == "Suspected of crashing its workers; waits for a worker that can run it in a process of its own"
        )
        assert [cause["holder"] for cause in need.evidence] == ["first", "second"]
        assert need.commands == (
            "holdfast worker YOUR_MODULE --queue default",
            f"holdfast cancel {job_id}",
        )
        assert (await client.get(job_id)).needs == (need,)
        run = await shop.claim(worker="alone")
        assert await client.waiting_for_person() == ()
        assert await run.go() == "completed"


async def test_a_store_that_is_away_is_for_next_time(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast.maintenance")
    async with opened(backend) as shop:
        away = True

        async def around(name: str, call: Any, args: Any, options: Any) -> Any:
            if away and name == "metadata.put":
                raise StoreUnavailable("away")
            return await call(*args, **options)

        maintenance = Maintenance(
            InterceptedStore(shop.store, around),
            shop.clock,
            Neighbours(Nobody()),
            RecoveryRules(),
            random.random,
        )
        await shop.submit(nothing)
        await shop.claim(ttl_us=SECOND)
        shop.clock.advance(SWEEP_EVERY_US)
        await maintenance.run_round()
        assert "maintenance round failed: sweep: away" in caplog.text
        assert maintenance.last is not None
        away = False
        await shop.claim(ttl_us=SECOND)
        shop.clock.advance(SWEEP_EVERY_US)
        await maintenance.run_round()
        assert await find_last_sweep(shop.store) == maintenance.last


async def test_a_duty_that_fails_hinders_no_other(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """Goal: one broken duty does not stop the others. Method: the calls fail that schedules and unclaimed work need,
    the second with an error that is a bug; the sweep of the same round happens, and the log names both."""
    async with opened(backend) as shop:

        async def around(name: str, call: Any, args: Any, options: Any) -> Any:
            if name == "schedules.due":
                raise StoreUnavailable("away")
            if name == "work.find_unclaimed":
                raise ZeroDivisionError
            return await call(*args, **options)

        maintenance = Maintenance(
            InterceptedStore(shop.store, around),
            shop.clock,
            Neighbours(Nobody()),
            RecoveryRules(),
            random.random,
        )
        job_id = await shop.submit(nothing)
        await shop.claim(ttl_us=SECOND)
        shop.clock.advance(SWEEP_EVERY_US)
        await maintenance.run_round()
        assert (await shop.store.jobs.head(job_id)).status is Status.PENDING
        assert "maintenance round failed: schedules: away" in caplog.messages
        assert "maintenance round failed: unclaimed work" in caplog.messages


async def test_expired_answers_and_silent_agents_are_removed(backend: Backend) -> None:
    """What has expired does not wait for a person. Nothing of it is looked for before its time."""
    async with opened(backend) as shop:
        client = EmbeddedClient(shop.store, shop.clock, SequentialIds())
        maintenance = maintenance_of(shop)
        await client.register_agent("ant", "t", guid="a1")
        await shop.store.cache.put(b"k" * 32, b"answer", ttl_us=SECOND)
        shop.clock.advance(EXPIRY_EVERY_US - 1)
        await maintenance.run_round()
        assert (await shop.store.cache.counts()).entries == 1
        shop.clock.advance(1)
        await maintenance.run_round()
        assert (await shop.store.cache.counts()).entries == 0
        assert len(await shop.store.entries.list()) == 1
        shop.clock.advance(DAY)
        await maintenance.run_round()
        assert len(await shop.store.entries.list()) == 0


async def test_a_process_that_does_not_serve_has_few_duties(backend: Backend) -> None:
    async with opened(backend) as shop:
        maintenance = maintenance_of(shop, serving=False)
        job_id = await shop.submit(nothing)
        await shop.claim(ttl_us=SECOND)
        shop.clock.advance(DAY)
        await maintenance.run_round()
        assert (await shop.store.jobs.head(job_id)).status is Status.RUNNING
        assert [duty.name for duty in maintenance.duties if not duty.serving] == [
            "store clock",
            "leases of dead processes",
            "unclaimed work",
        ]
