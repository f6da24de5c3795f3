"""Sweeps: one short hold on every job whose lease has ended. This is the store's part of the sweep."""

from __future__ import annotations

import asyncio

from holdfast.errors import Fenced, InvalidMove
from holdfast.model.append import Extras, Move, Timer
from holdfast.model.events import JobCancellation, JobDeadLettered, JobRequeued
from holdfast.model.hash_chain import find_break, unseal
from holdfast.model.jobs import JobHead
from holdfast.model.states import Status, WaitReason
from holdfast.model.time import MINUTE, SECOND
from holdfast.store.ports.journal import Ruling
from holdfast.testing.conformance.driver import step
from holdfast.testing.conformance.harness import Bench
from holdfast.testing.conformance.jobs.submit import assert_no_lease

BURY = Ruling(
    (JobDeadLettered(({"why": "too often"},)),),
    Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER, takeover=True),
)


def requeue(head: JobHead) -> Ruling:
    fact = JobRequeued("swept", takeover=True, holder=head.lease_owner)
    return Ruling((fact,), Move(status=Status.PENDING, ready_at=head.ready_at, takeover=True))


async def a_sweep_holds_every_expired_job(bench: Bench) -> None:
    late = await bench.drive_new("late", ttl_us=20 * SECOND)
    early = await bench.drive_new("early", ttl_us=10 * SECOND)
    bench.clock.advance(30 * SECOND)
    before = {job: await bench.store.jobs.head(job) for job in (late.job_id, early.job_id)}
    held = await bench.store.journal.hold_expired(requeue)
    assert [head for head, _ in held] == [before[early.job_id], before[late.job_id]], "longest first"
    for head, ruling in held:
        now = await bench.store.jobs.head(head.job_id)
        assert (now.status, now.fence) == (Status.PENDING, head.fence + 1)
        assert (now.takeovers, now.ready_at) == (1, head.ready_at), "counted, and its place in the queue kept"
        assert_no_lease(now)
        events = await bench.store.journal.read(head.job_id)
        assert find_break(head.job_id, events) is None
        assert unseal(events[-1]) == ruling.events[0]
        assert (events[-1].seq, events[-1].hash) == (now.head_seq, now.head_hash)
    async with bench.expect_unchanged():
        assert await bench.store.journal.hold_expired(requeue) == [], "nothing is left"
    for driver in (late, early):
        async with bench.refuses(Fenced):
            await bench.store.journal.append(driver.build(step("too late")))
        again = await bench.drive(driver.grant.queue)
        assert (again.grant.takeover, again.grant.takeovers) == (False, 1)


async def a_sweep_leaves_live_leases_alone(bench: Bench) -> None:
    alive, renewed = await bench.drive_new(ttl_us=MINUTE), await bench.drive_new(ttl_us=SECOND)
    pending, waiting = await bench.submit(), await bench.drive_new()
    await waiting.wait(WaitReason.SIGNAL)
    bench.clock.advance(2 * SECOND)
    assert await bench.store.leases.renew([renewed.held], MINUTE) == {renewed.job_id}
    async with bench.expect_unchanged():
        assert await bench.store.journal.hold_expired(requeue) == []
    assert (await bench.store.jobs.head(pending)).status is Status.PENDING
    await alive.write(step("undisturbed"))
    await renewed.write(step("renewed in time"))


async def a_sweep_judges_each_job(bench: Bench) -> None:
    spared, buried, requeued = [
        await bench.drive_new(name, ttl_us=0) for name in ("spare", "bury", "requeue")
    ]

    def decide(head: JobHead) -> Ruling | None:
        choices = {"spare": None, "bury": BURY}
        return choices[head.lease_owner] if head.lease_owner in choices else requeue(head)

    held = await bench.store.journal.hold_expired(decide)
    assert {head.job_id for head, _ in held} == {buried.job_id, requeued.job_id}
    head = await bench.store.jobs.head(buried.job_id)
    assert (head.status, head.wait_reason, head.takeovers) == (Status.WAITING, WaitReason.DEAD_LETTER, 1)
    assert (await bench.store.jobs.head(requeued.job_id)).status is Status.PENDING
    await spared.write(step("still its holder"))


async def a_sweep_does_to_each_what_was_ruled(bench: Bench) -> None:
    now, fact = bench.clock.wall_us(), JobRequeued("swept", takeover=True)
    rulings = {
        "stays": Ruling((fact,), Move(status=Status.PENDING, ready_at=now - SECOND, takeover=True)),
        "later": Ruling((fact,), Move(status=Status.PENDING, ready_at=now + MINUTE, failed=True)),
        "now": Ruling((JobRequeued("anew"),), Move(status=Status.PENDING, anew=True)),
        "rings": Ruling((fact,), Move(status=Status.WAITING, reason=WaitReason.TIMER, wake_at=now + MINUTE)),
        "buried": BURY,
    }
    jobs = {name: await bench.drive_new(name, ttl_us=0) for name in (*rulings, *rulings)}
    before = {name: await bench.store.jobs.head(driver.job_id) for name, driver in jobs.items()}
    await bench.store.journal.hold_expired(lambda head: rulings[head.lease_owner])
    after = {name: await bench.store.jobs.head(driver.job_id) for name, driver in jobs.items()}
    assert {name: (head.status, head.wait_reason, head.wake_at) for name, head in after.items()} == {
        name: (ruling.move.status, ruling.move.reason, ruling.move.wake_at)
        for name, ruling in rulings.items()
    }
    counts = {name: (head.takeovers, head.attempts) for name, head in after.items()}
    assert counts == {"stays": (1, 0), "later": (0, 1), "now": (0, 0), "rings": (0, 0), "buried": (1, 0)}
    unchanged = {name: head.ready_at for name, head in before.items()}
    assert {name: head.ready_at for name, head in after.items()} == unchanged | {
        "stays": now - SECOND,
        "later": now + MINUTE,
        "now": bench.clock.wall_us(),
    }
    for name, head in after.items():
        events = await bench.store.journal.read(head.job_id)
        assert find_break(head.job_id, events) is None
        assert [unseal(event) for event in events[2:]] == list(rulings[name].events)
        assert (events[-1].seq, events[-1].hash, events[-1].fence) == (
            head.head_seq,
            head.head_hash,
            head.fence,
        )


async def two_facts_of_one_ruling_are_kept_in_order(bench: Bench) -> None:
    driver, other = await bench.drive_new("two", ttl_us=0), await bench.drive_new("one", ttl_us=0)
    two = (JobRequeued("first"), JobRequeued("second"))
    await bench.store.journal.hold_expired(
        lambda head: Ruling(two if head.lease_owner == "two" else two[:1], Move(status=Status.PENDING))
    )
    for job_id, facts in ((driver.job_id, two), (other.job_id, two[:1])):
        events = await bench.store.journal.read(job_id)
        assert find_break(job_id, events) is None
        assert tuple(unseal(event) for event in events[2:]) == facts
        assert (await bench.store.jobs.head(job_id)).head_seq == events[-1].seq


async def a_sweep_takes_no_more_than_asked_for(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        await bench.drive_new(name, ttl_us=0)
    assert await bench.store.journal.hold_expired(requeue, limit=0) == []
    assert len(await bench.store.journal.hold_expired(requeue, limit=2)) == 2
    assert len(await bench.store.journal.hold_expired(requeue, limit=2)) == 1


async def a_sweep_cannot_end_a_job(bench: Bench) -> None:
    await bench.drive_new(ttl_us=0)
    over = Ruling((JobCancellation(),), Move(status=Status.CANCELLED))
    runs = Ruling((JobRequeued(),), Move(status=Status.RUNNING))
    more = Ruling((JobRequeued(),), Move(status=Status.PENDING), Extras(timers=(Timer("1/sleep#1", 7),)))
    for ruling in (over, runs, more):
        async with bench.refuses(InvalidMove):
            await bench.store.journal.hold_expired(lambda _head, ruling=ruling: ruling)  # type: ignore[misc]


async def a_large_ruling_is_kept_whole(bench: Bench) -> None:
    driver = await bench.drive_new(ttl_us=0)
    fact = JobRequeued("swept", error={"log": "x" * 20_000}, takeover=True)
    await bench.store.journal.hold_expired(lambda _head: Ruling((fact,), Move(status=Status.PENDING)))
    events = await bench.store.journal.read(driver.job_id)
    assert unseal(events[-1]) == fact


async def a_sweep_takes_the_jobs_of_another_boot(bench: Bench) -> None:
    driver = await bench.drive_new(ttl_us=MINUTE)
    bench.reboot()
    assert [head.job_id for head, _ in await bench.store.journal.hold_expired(requeue)] == [driver.job_id]


async def two_sweeps_share_the_jobs(bench: Bench) -> None:
    jobs = [(await bench.drive_new(ttl_us=0)).job_id for _ in range(20)]
    halves = await asyncio.gather(*(bench.store.journal.hold_expired(requeue) for _ in range(4)))
    swept = [head.job_id for half in halves for head, _ in half]
    rest = [head.job_id for head, _ in await bench.store.journal.hold_expired(requeue)]
    assert sorted(swept + rest) == sorted(jobs), "each once"
    for job_id in jobs:
        assert (await bench.store.jobs.head(job_id)).takeovers == 1


async def everybody_who_holds_a_job_is_named(bench: Bench) -> None:
    await bench.drive_new("b"), await bench.drive_new("a", ttl_us=0), await bench.drive_new("b")
    gone = await bench.drive_new("gone")
    await gone.release()
    assert await bench.store.leases.owners() == ["a", "b"]
