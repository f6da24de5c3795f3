"""Leases are renewed together, end what they lost, and are not used when they are about to end."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast.engine.committer import Committer
from holdfast.engine.hold import Keeper
from holdfast.engine.run import JobRun
from holdfast.errors import Fenced
from holdfast.model.instants import SECOND
from holdfast.store.ports.leases import Held
from holdfast.store.wrapped import Call, WrappedStore
from holdfast.testing.conformance.bench import Backend
from tests.engine.shop import Shop, opened
from tests.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)


class Holder:
    """A run that only remembers what it is told."""

    def __init__(self, run: JobRun) -> None:
        self.held: Held = run.held
        self.lost: list[Fenced] = []

    def lose(self, error: Fenced) -> None:
        self.lost.append(error)


async def _nothing(*_: object) -> None:
    """The code of a job that nobody drives here."""


async def held(shop: Shop, keeper: Keeper, count: int) -> list[Holder]:
    for _ in range(count):
        await shop.submit(_nothing)
    asked_at = shop.clock.tick_us()
    holders = [Holder(run) for run in await shop.claim_all(ttl_us=keeper.ttl_us)]
    for holder in holders:
        keeper.keep(holder, asked_at)
    return holders


async def test_a_lease_is_renewed_before_it_ends(backend: Backend) -> None:
    async with opened(backend) as shop:
        keeper = Keeper(shop.store.leases, shop.clock)
        holders = await held(shop, keeper, 3)
        for _ in range(5):
            backend.clock.advance(keeper.every_us)
            await keeper.renew()
        assert all(keeper.covers(holder.held.job_id) for holder in holders)
        assert await shop.claim_all(worker="other") == []
        assert not any(holder.lost for holder in holders)


async def test_nothing_is_started_under_a_lease_that_is_about_to_end(backend: Backend) -> None:
    async with opened(backend) as shop:
        keeper = Keeper(shop.store.leases, shop.clock)
        (holder,) = await held(shop, keeper, 1)
        backend.clock.advance(keeper.ttl_us - 6 * SECOND)
        assert keeper.covers(holder.held.job_id)
        backend.clock.advance(2 * SECOND)
        assert not keeper.covers(holder.held.job_id)
        await keeper.renew()
        assert keeper.covers(holder.held.job_id)
        keeper.let_go(holder)
        assert not keeper.covers(holder.held.job_id)


async def test_a_run_hears_that_its_job_was_taken(backend: Backend) -> None:
    async with opened(backend) as shop:
        keeper = Keeper(shop.store.leases, shop.clock)
        mine, other = await held(shop, keeper, 2)
        backend.clock.advance(keeper.ttl_us + SECOND)
        taken = await shop.claim(worker="other")
        await keeper.renew()
        told = {holder.held.job_id: len(holder.lost) for holder in (mine, other)}
        assert told.pop(taken.held.job_id) == 1
        assert list(told.values()) == [0], "the other lease ran out and was taken by nobody: it is still ours"


async def test_a_run_whose_end_was_just_written_has_lost_nothing(backend: Backend) -> None:
    """Goal: a renewal that meets a job which is over does not call it lost. Method: the reply to the last write is kept
    back until the renewal has been told that nobody holds the job."""
    async with opened(backend) as shop:
        keeper = Keeper(shop.store.leases, shop.clock)
        await shop.submit(_nothing)
        told = asyncio.Event()

        async def late(name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
            result = await call(*args, **options)
            if name == "journal.append_many":
                await keeper.renew()
                told.set()
            return result

        wrapped = WrappedStore(shop.store, late)
        desk = msgspec.structs.replace(shop.desk(), committer=Committer(wrapped.journal))
        run = await shop.claim(desk=desk)
        keeper.keep(run, shop.clock.tick_us())
        assert await run.go() == "completed"
        assert told.is_set()
