"""Lease renewal: one lease covers all runs of a worker, is taken anew after it expired, and ends what it lost."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.job_runner import JobRun
from holdfast.engine.lease_renewal import LeaseRenewal
from holdfast.errors import Fenced
from holdfast.model.time import SECOND
from holdfast.store.interceptor import Call, InterceptedStore
from holdfast.store.ports.leases import HeldLease
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)

_incarnations = itertools.count(1)


class Holder:
    """A run that only remembers what it is told."""

    def __init__(self, run: JobRun) -> None:
        self.held: HeldLease = run.held
        self.lost: list[Fenced] = []

    def lose(self, error: Fenced) -> None:
        self.lost.append(error)


async def _nothing(*_: object) -> None:
    """The code of a job that is not driven here."""


def renewal_of(shop: Shop, worker: str) -> LeaseRenewal:
    return LeaseRenewal(worker, shop.clock, lambda: f"lease-{next(_incarnations)}")


async def hold(shop: Shop, renewal: LeaseRenewal, worker: str, count: int) -> list[Holder]:
    """So many new jobs are claimed under the worker's lease."""
    for _ in range(count):
        await shop.submit(_nothing)
    runs = await shop.claim_all(worker=worker, incarnation=renewal.incarnation)
    holders = [Holder(run) for run in runs]
    for holder in holders:
        renewal.keep(holder)
    return holders


async def pass_time(backend: Backend, shop: Shop, us: int, *renewals: LeaseRenewal) -> None:
    """Time passes; these workers beat at their times meanwhile."""
    while us > 0:
        step = min(us, *(one.every_us for one in renewals)) if renewals else us
        backend.clock.advance(step)
        us -= step
        for one in renewals:
            await one.beat(shop.store.leases)


async def test_a_lease_covers_its_jobs_as_long_as_its_worker_beats(backend: Backend) -> None:
    async with opened(backend) as shop:
        mine, other = renewal_of(shop, "mine"), renewal_of(shop, "other")
        await mine.start(shop.store.leases)
        await other.start(shop.store.leases)
        holders = await hold(shop, mine, "mine", 3)
        await pass_time(backend, shop, 5 * mine.ttl_us, mine, other)
        assert all(mine.covers(holder.held.job_id) for holder in holders)
        assert await shop.claim_all(worker="other", incarnation=other.incarnation) == []
        assert not any(holder.lost for holder in holders)


async def test_a_worker_that_does_not_beat_loses_its_jobs_after_the_lease_time(backend: Backend) -> None:
    """Goal: not before the lease time, and not much later; from when the observer first looked."""
    async with opened(backend) as shop:
        silent, other = renewal_of(shop, "silent"), renewal_of(shop, "other")
        await silent.start(shop.store.leases)
        (holder,) = await hold(shop, silent, "silent", 1)
        await other.start(shop.store.leases)
        await pass_time(backend, shop, silent.ttl_us - SECOND, other)
        assert await shop.claim_all(worker="other", incarnation=other.incarnation) == []
        await pass_time(backend, shop, other.every_us, other)
        (taken,) = await shop.claim_all(worker="other", incarnation=other.incarnation)
        assert taken.held.job_id == holder.held.job_id
        assert taken.grant.takeover
        await silent.beat(shop.store.leases)
        assert len(holder.lost) == 1
        assert not other.is_replaced
        assert not silent.is_replaced


async def test_a_worker_keeps_what_no_other_has_taken(backend: Backend) -> None:
    async with opened(backend) as shop:
        silent, other = renewal_of(shop, "silent"), renewal_of(shop, "other")
        await silent.start(shop.store.leases)
        mine, lost = await hold(shop, silent, "silent", 2)
        await other.start(shop.store.leases)
        await pass_time(backend, shop, silent.ttl_us + SECOND, other)
        taken = await shop.claim(worker="other", incarnation=other.incarnation)
        if taken.held.job_id == mine.held.job_id:
            mine, lost = lost, mine
        assert not silent.covers(mine.held.job_id), "it has not beaten for too long"
        await silent.beat(shop.store.leases)
        assert len(lost.lost) == 1
        assert not mine.lost
        assert silent.covers(mine.held.job_id)
        await pass_time(backend, shop, 2 * silent.ttl_us, silent, other)
        assert await shop.claim_all(worker="other", incarnation=other.incarnation) == [], (
            "and it is covered again"
        )


async def test_an_observer_that_was_away_starts_again(backend: Backend) -> None:
    """Goal: the first process that returns after an outage does not expire the others. Method: neither beats for an
    hour."""
    async with opened(backend) as shop:
        mine, other = renewal_of(shop, "mine"), renewal_of(shop, "other")
        await mine.start(shop.store.leases)
        (holder,) = await hold(shop, mine, "mine", 1)
        await other.start(shop.store.leases)
        backend.clock.advance(3600 * SECOND)
        await other.beat(shop.store.leases)
        assert await shop.claim_all(worker="other", incarnation=other.incarnation) == []
        await mine.beat(shop.store.leases)
        assert mine.covers(holder.held.job_id)


async def test_nothing_is_started_under_a_lease_that_is_about_to_end(backend: Backend) -> None:
    async with opened(backend) as shop:
        renewal = renewal_of(shop, "mine")
        await renewal.start(shop.store.leases)
        (holder,) = await hold(shop, renewal, "mine", 1)
        backend.clock.advance(renewal.ttl_us - 6 * SECOND)
        assert renewal.covers(holder.held.job_id)
        backend.clock.advance(2 * SECOND)
        assert not renewal.covers(holder.held.job_id)
        await renewal.beat(shop.store.leases)
        assert renewal.covers(holder.held.job_id)
        renewal.let_go(holder)
        assert not renewal.covers(holder.held.job_id)


async def test_a_process_of_the_same_name_replaces_the_one_before(backend: Backend) -> None:
    """Goal: the older process loses its jobs and its name, and does not take them back. The newer one is not
    disturbed."""
    async with opened(backend) as shop:
        old, new = renewal_of(shop, "same"), renewal_of(shop, "same")
        await old.start(shop.store.leases)
        (holder,) = await hold(shop, old, "same", 1)
        await new.start(shop.store.leases)
        (taken,) = await shop.claim_all(worker="same", incarnation=new.incarnation)
        assert taken.held.job_id == holder.held.job_id
        await old.beat(shop.store.leases)
        assert old.is_replaced
        assert len(holder.lost) == 1
        await old.close(shop.store.leases)
        await new.beat(shop.store.leases)
        assert not new.is_replaced
        assert await shop.claim_all(worker="x", ttl_us=SECOND) == []


async def test_nothing_is_granted_without_the_lease(backend: Backend) -> None:
    async with opened(backend) as shop:
        renewal = renewal_of(shop, "mine")
        await renewal.start(shop.store.leases)
        await shop.submit(_nothing)
        await renewal.close(shop.store.leases)
        assert await shop.claim_all(worker="mine", incarnation=renewal.incarnation) == []
        assert len(await shop.claim_all(worker="mine", ttl_us=SECOND)) == 1


async def test_a_run_whose_end_was_just_written_has_lost_nothing(backend: Backend) -> None:
    """Goal: a renewal that meets a job which is over does not call it lost. Method: the reply to the last write is kept
    back until the lease has been lost and taken anew."""
    async with opened(backend) as shop:
        renewal = renewal_of(shop, "mine")
        await renewal.start(shop.store.leases)
        await shop.submit(_nothing)
        told = asyncio.Event()

        async def late(name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
            result = await call(*args, **options)
            if name == "journal.append_many":
                await shop.store.leases.expire("mine")
                await renewal.beat(shop.store.leases)
                told.set()
            return result

        wrapped = InterceptedStore(shop.store, late)
        desk = msgspec.structs.replace(shop.desk(), committer=GroupCommit(wrapped.journal))
        run = await shop.claim(desk=desk, worker="mine", incarnation=renewal.incarnation)
        renewal.keep(run)
        assert await run.go() == "completed"
        assert told.is_set()
