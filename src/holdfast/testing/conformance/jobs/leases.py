"""Leases: how long a worker may run a job, and how another takes over."""

from __future__ import annotations

from holdfast.errors import Fenced
from holdfast.model.events import JobClaimed
from holdfast.model.hash_chain import unseal
from holdfast.model.states import Status
from holdfast.model.time import DAY, MINUTE, SECOND
from holdfast.model.worker_lease import WorkerLease
from holdfast.store.ports.leases import BeatResult, ClaimRequest, HeldLease
from holdfast.testing.conformance.driver import step
from holdfast.testing.conformance.harness import Bench


async def a_lease_that_ran_out_is_taken_over(bench: Bench) -> None:
    old = await bench.drive_new("old", ttl_us=MINUTE)
    queue = old.grant.queue
    bench.clock.advance(MINUTE - 1)
    assert await bench.claimable(queues=(queue,)) == [], "not a microsecond early"
    bench.clock.advance(1)
    new = await bench.drive(queue, "new")
    assert new.grant.takeover
    assert new.grant.takeovers == 1
    assert new.grant.fence == old.grant.fence + 1
    event = (await bench.store.journal.read(old.job_id))[-1]
    assert unseal(event) == JobClaimed(worker="new", takeover=True), "the journal says that it was a takeover"
    async with bench.refuses(Fenced):
        await bench.store.journal.append(old.build(step("too late")))
    await new.write(step("in time"))


async def a_slow_holder_may_write_until_somebody_takes_over(bench: Bench) -> None:
    driver = await bench.drive_new(ttl_us=SECOND)
    bench.clock.advance(DAY)
    await driver.write(step("late, and alone"))


async def takeovers_count_until_there_is_progress(bench: Bench) -> None:
    driver = await bench.drive_new(ttl_us=0)
    queue = driver.grant.queue
    assert (await bench.drive(queue, ttl_us=0)).grant.takeovers == 1
    driver = await bench.drive(queue, ttl_us=0)
    assert driver.grant.takeovers == 2
    await driver.write(step("no progress"))
    assert (await bench.store.jobs.head(driver.job_id)).takeovers == 2, "writing alone is not progress"
    await driver.write(step("progress"), progress=True)
    assert (await bench.store.jobs.head(driver.job_id)).takeovers == 0
    assert (await bench.drive(queue)).grant.takeovers == 1, "and counting starts again"


async def a_lease_that_was_given_back_is_no_takeover(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.release()
    again = await bench.drive(driver.grant.queue)
    assert not again.grant.takeover
    assert again.grant.takeovers == 0
    assert again.grant.fence == driver.grant.fence + 1


async def a_renewed_lease_lasts_from_now(bench: Bench) -> None:
    driver = await bench.drive_new(ttl_us=MINUTE)
    bench.clock.advance(MINUTE - 1)
    assert await bench.store.leases.renew([driver.held], MINUTE) == {driver.job_id}
    head = await bench.store.jobs.head(driver.job_id)
    assert head.lease_expires_at == bench.clock.tick_us() + MINUTE
    assert head.head == driver.holder.head, "a renewal is not an event"
    bench.clock.advance(MINUTE - 1)
    assert await bench.claimable(queues=(driver.grant.queue,)) == []


async def a_lease_that_ran_out_may_be_renewed(bench: Bench) -> None:
    driver = await bench.drive_new(ttl_us=SECOND)
    bench.clock.advance(DAY)
    assert await bench.store.leases.renew([driver.held], MINUTE) == {driver.job_id}, "nobody had taken it"
    assert await bench.claimable(queues=(driver.grant.queue,)) == []


async def a_renewal_names_only_what_is_still_held(bench: Bench) -> None:
    current, lost, released = (
        await bench.drive_new(),
        await bench.drive_new(ttl_us=0),
        await bench.drive_new(),
    )
    await bench.drive(lost.grant.queue)
    await released.release()
    stranger = HeldLease(current.job_id, current.grant.fence, "another token")
    outdated = HeldLease(current.job_id, current.grant.fence - 1, current.grant.lease_token)
    unknown = HeldLease("job_unknown", 1, "a token")
    everything = [current.held, lost.held, released.held, unknown]
    assert await bench.store.leases.renew(everything, MINUTE) == {current.job_id}
    assert await bench.store.leases.renew([stranger], MINUTE) == set(), "the token must be right"
    assert await bench.store.leases.renew([outdated], MINUTE) == set(), "and so must the fence"
    assert await bench.store.leases.renew([], MINUTE) == set()


async def a_dead_workers_jobs_are_claimable_at_once(bench: Bench) -> None:
    first, second = await bench.drive_new("dead"), await bench.drive_new("dead")
    other = await bench.drive_new("alive")
    assert await bench.store.leases.expire("dead") == 2
    assert (await bench.store.jobs.head(first.job_id)).lease_expires_at == 0
    queues = tuple(driver.grant.queue for driver in (first, second, other))
    granted = await bench.grants("heir", queues=queues)
    assert {grant.job_id for grant in granted} == {first.job_id, second.job_id}
    assert all(grant.takeover for grant in granted)
    assert await bench.store.leases.expire("dead") == 0, "it has nothing any more"
    assert await bench.store.leases.expire("never heard of") == 0


async def expired_leases_are_listed_longest_first(bench: Bench) -> None:
    late = await bench.drive_new(ttl_us=20 * SECOND)
    early = await bench.drive_new(ttl_us=10 * SECOND)
    await bench.drive_new(ttl_us=MINUTE)
    assert await bench.store.leases.list_expired() == []
    bench.clock.advance(30 * SECOND)
    assert await bench.store.leases.list_expired() == [early.job_id, late.job_id]
    assert await bench.store.leases.list_expired(1) == [early.job_id]
    await bench.drive(early.grant.queue)
    assert await bench.store.leases.list_expired() == [late.job_id]


async def a_jump_of_the_wall_clock_takes_no_job_away(bench: Bench) -> None:
    driver = await bench.drive_new()
    for days in (1, -2):
        bench.clock.jump_wall(days * DAY)
        assert await bench.store.leases.list_expired() == []
        assert await bench.claimable(queues=(driver.grant.queue,)) == []


async def a_reboot_ends_leases(bench: Bench) -> None:
    old = await bench.drive_new(ttl_us=DAY)
    bench.reboot()
    assert await bench.store.leases.list_expired() == [old.job_id], "whoever drove it did not survive"
    new = await bench.drive(old.grant.queue, "new")
    assert new.grant.takeover
    async with bench.refuses(Fenced):
        await bench.store.journal.append(old.build(step("from before")))


async def a_lease_survives_a_new_handle(bench: Bench) -> None:
    driver = await bench.drive_new()
    await bench.reopen()
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.status, head.fence, head.head) == (Status.RUNNING, driver.grant.fence, driver.holder.head)
    assert await bench.claimable(queues=(driver.grant.queue,)) == [], "opening a store takes nothing away"
    driver.store = bench.store
    await driver.write(step("as if nothing had happened"))


async def a_claim_under_a_workers_lease_lasts_until_it_is_expired(bench: Bench) -> None:
    leases, lease = bench.store.leases, WorkerLease("steady", "first", beat=1)
    await leases.start(lease)
    job_id = await bench.submit(queue="steady")
    (grant,) = await leases.claim(_make_claim_request(lease, "steady"))
    bench.clock.advance(DAY)
    assert await bench.claimable(queues=("steady",)) == [], "no clock ends it"
    assert await leases.expire("steady", "first", 0) is None, "another beat was seen"
    assert await leases.expire("steady", "second") is None, "another incarnation was seen"
    assert await bench.claimable(queues=("steady",)) == []
    assert await leases.expire("steady", "first", 1) == 1
    assert await leases.list_expired() == [job_id]
    head = await bench.store.jobs.head(job_id)
    assert (head.fence, head.lease_owner) == (grant.fence, "steady"), (
        "until another takes it, it may be renewed"
    )
    assert await leases.renew([HeldLease(job_id, grant.fence, grant.lease_token)], DAY) == {job_id}


async def a_worker_without_its_lease_claims_nothing(bench: Bench) -> None:
    leases, lease = bench.store.leases, WorkerLease("lapsed", "first", beat=1)
    job_id = await bench.submit(queue="lapsed")
    assert await leases.claim(_make_claim_request(lease, "lapsed")) == [], "it has none yet"
    await leases.start(lease)
    await leases.expire("lapsed", "first")
    assert await leases.claim(_make_claim_request(lease, "lapsed")) == [], "it was declared expired"
    await leases.start(WorkerLease("lapsed", "second", beat=1))
    assert await leases.claim(_make_claim_request(lease, "lapsed")) == [], "it is another incarnation's"
    roots = ClaimRequest(
        worker="lapsed", token="roots", queues=("lapsed",), incarnation="first", roots=(job_id,)
    )
    assert await leases.claim(roots) == [], "nor by name"
    (grant,) = await leases.claim(_make_claim_request(WorkerLease("lapsed", "second"), "lapsed"))
    assert grant.job_id == job_id


async def a_beat_is_seen_by_the_other_workers(bench: Bench) -> None:
    leases = bench.store.leases
    first, second = WorkerLease("one", "1", "@x", DAY, 1), WorkerLease("two", "2", "", MINUTE, 1)
    assert await leases.start(first) == BeatResult(first)
    assert await leases.start(second) == BeatResult(second, (first,))
    assert await leases.workers() == [first, second]
    beaten = WorkerLease("one", "1", "@x", DAY, 2)
    assert await leases.beat(beaten) == BeatResult(beaten, (second,))
    assert (await leases.beat(second)).others == (beaten,)
    assert (await leases.beat(WorkerLease("two", "other", beat=9))).mine == second, (
        "another incarnation beats nothing"
    )
    assert (await leases.beat(WorkerLease("unknown", "3", beat=1))).mine is None
    await leases.expire("one", "1")
    assert await leases.beat(beaten) == BeatResult(None, (second,)), "a beat does not bring a lease back"


async def a_new_incarnation_frees_what_the_one_before_held(bench: Bench) -> None:
    leases, lease = bench.store.leases, WorkerLease("named", "first", beat=1)
    await leases.start(lease)
    job_id = await bench.submit(queue="named")
    await leases.claim(_make_claim_request(lease, "named"))
    await leases.start(lease)
    assert await bench.claimable(queues=("named",)) == [], "the same incarnation, said twice, frees nothing"
    await leases.start(WorkerLease("named", "second", beat=1))
    assert await bench.claimable(queues=("named",)) == [job_id]


def _make_claim_request(lease: WorkerLease, queue: str) -> ClaimRequest:
    token = f"{lease.worker} {lease.incarnation}"
    return ClaimRequest(worker=lease.worker, token=token, queues=(queue,), incarnation=lease.incarnation)
