"""Many claimers, one grant for each job."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from holdfast.model.jobs import JobDraft
from holdfast.model.lease import Grant
from holdfast.store.contract import Store
from holdfast.store.ports.leases import ClaimRequest
from tests.store.concurrency.stores import BOTH, PATIENCE_S, Place, check_journal, crew, fresh, opened

HANDLES = 4
TASKS = 2


@pytest.mark.parametrize("place", BOTH, indirect=True)
@pytest.mark.parametrize(
    "jobs", [300, pytest.param(10_000, marks=[pytest.mark.chaos, pytest.mark.timeout(900)])]
)
async def test_every_job_is_granted_once(place: Place, jobs: int) -> None:
    """Goal: no job is granted twice and none is forgotten. Method: eight claimers on four handles empty a queue, in
    claims of different sizes, by priority and by age."""
    queue = fresh("queue")
    granted: list[Grant] = []

    def claimer(name: str) -> Callable[[Store], Awaitable[None]]:
        chance = random.Random(name)

        async def claim(store: Store) -> None:
            while len(granted) < jobs:
                ask = ClaimRequest(
                    worker=name,
                    token=fresh(name),
                    queues=(queue,),
                    limit=chance.randint(1, 9),
                    by_age=chance.random() < 0.2,
                )
                granted.extend(await store.leases.claim(ask))

        return claim

    async with opened(place) as store, crew(place, HANDLES) as hands:
        drafts = [JobDraft(kind="work", queue=queue, priority=1 + n % 10) for n in range(jobs)]
        submitted = {one.job_id for one in await store.jobs.submit_many(drafts)}
        async with asyncio.timeout(PATIENCE_S * jobs / 300):
            await asyncio.gather(
                *(hand.do(claimer(f"w{n}{m}")) for n, hand in enumerate(hands) for m in range(TASKS))
            )
        shares = Counter(grant.lease_token.partition("-")[0] for grant in granted)
        print(f"{jobs} jobs, granted to {len(shares)} claimers: {sorted(shares.values())}")
        assert len(granted) == jobs, "a job was granted twice"
        assert {grant.job_id for grant in granted} == submitted
        assert not any(grant.takeover for grant in granted)
        for grant in granted[:: jobs // 50]:
            assert len(await check_journal(store, grant.job_id)) == 2


@pytest.mark.parametrize("place", BOTH, indirect=True)
async def test_a_lost_lease_is_taken_over_once(place: Place) -> None:
    """Goal: of many who see the same lease run out, one takes the job over. Method: leases of no length on a few jobs,
    eight claimers, and the events that each grant leaves behind."""
    queue, rounds = fresh("queue"), 20
    async with opened(place) as store, crew(place, HANDLES) as hands:
        (job,) = await store.jobs.submit_many([JobDraft(kind="work", queue=queue)])
        grants: list[Grant] = []

        async def claim(store: Store) -> None:
            for _ in range(rounds):
                ask = ClaimRequest(worker="w", token=fresh("w"), queues=(queue,), ttl_us=0)
                grants.extend(await store.leases.claim(ask))

        await asyncio.gather(*(hand.do(claim) for hand in hands))
        fences = [grant.fence for grant in grants]
        assert len(set(fences)) == len(fences), "a fence belongs to one grant"
        events = await store.journal.read(job.job_id)
        assert [event.fence for event in events[1:]] == sorted(fences), "each grant has its event, in order"
        assert (await store.jobs.head(job.job_id)).takeovers == len(grants) - 1
        await check_journal(store, job.job_id)
    print(f"{len(grants)} grants of one job to {HANDLES} claimers, {HANDLES * rounds} asks")
