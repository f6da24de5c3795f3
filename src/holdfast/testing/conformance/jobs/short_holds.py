"""Short holds: writes into a job that no worker holds."""

from __future__ import annotations

from holdfast.errors import Fenced, NotFound
from holdfast.model.append import Extras, Move, Timer
from holdfast.model.events import JobCancellation, JobDeadLettered, JobRequeued
from holdfast.model.hash_chain import find_break, unseal
from holdfast.model.jobs import JobHead
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.store.ports.journal import Ruling
from holdfast.testing.conformance.driver import step
from holdfast.testing.conformance.harness import Bench, present
from holdfast.testing.conformance.jobs.submit import assert_no_lease

CANCEL = Ruling((JobCancellation(why="asked"),), Move(status=Status.CANCELLED))
BURY = Ruling((JobDeadLettered(),), Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER))
REQUEUE = Ruling((JobRequeued(why="again"),), Move(status=Status.PENDING))


async def a_hold_writes_what_was_decided(bench: Bench) -> None:
    job_id = await bench.submit()
    before = await bench.store.jobs.head(job_id)
    seen: list[JobHead] = []

    def decide(head: JobHead) -> Ruling:
        seen.append(head)
        return CANCEL

    written = present(await bench.store.journal.hold(job_id, decide), "the new head")
    head = await bench.store.jobs.head(job_id)
    assert seen[-1] == before, "the decision is made on the head as it was"
    assert (head.status, head.fence) == (Status.CANCELLED, before.fence + 1)
    assert head.head == written
    assert_no_lease(head)
    events = await bench.store.journal.read(job_id)
    assert find_break(job_id, events) is None
    assert [unseal(event) for event in events[1:]] == [JobCancellation(why="asked")], (
        "no claim, just the ruling"
    )
    assert events[-1].fence == head.fence


async def a_hold_moves_a_job_as_an_append_would(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.write(step("one"), extras=Extras(timers=(Timer("1/sleep#1", 7),)))
    await driver.wait(WaitReason.SIGNAL)
    await bench.store.journal.hold(driver.job_id, lambda _head: BURY)
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.status, head.wait_reason) == (Status.WAITING, WaitReason.DEAD_LETTER)
    bench.clock.advance(1)
    await bench.store.journal.hold(driver.job_id, lambda _head: REQUEUE)
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.status, head.wait_reason) == (Status.PENDING, None)
    assert head.ready_at == bench.clock.wall_us()
    assert len(await bench.store.post.timers(driver.job_id)) == 1
    await bench.store.journal.hold(driver.job_id, lambda _head: CANCEL)
    assert await bench.store.post.timers(driver.job_id) == [], "the end removes the timers here, too"


async def a_hold_may_begin_the_job_again(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.release(failed=True)
    await bench.drive(driver.grant.queue, ttl_us=0)
    driver = await bench.drive(driver.grant.queue)
    await driver.write(
        JobDeadLettered(), move=Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER, failed=True)
    )
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.attempts, head.takeovers) == (2, 1)
    again = Ruling(REQUEUE.events, Move(status=Status.PENDING, anew=True))
    await bench.store.journal.hold(driver.job_id, lambda _head: again)
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.status, head.attempts, head.takeovers) == (Status.PENDING, 0, 0)


async def a_hold_leaves_a_driven_job_alone(bench: Bench) -> None:
    driver = await bench.drive_new()
    async with bench.expect_unchanged():
        assert await bench.store.journal.hold(driver.job_id, lambda _head: CANCEL) is None
    await driver.write(step("undisturbed"))


async def a_hold_may_decide_nothing(bench: Bench) -> None:
    job_id = await bench.submit()
    async with bench.expect_unchanged():
        assert await bench.store.journal.hold(job_id, lambda _head: None) is None


async def a_hold_leaves_a_job_that_is_over_alone(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.complete()
    async with bench.expect_unchanged():
        assert await bench.store.journal.hold(driver.job_id, lambda _head: CANCEL) is None


async def a_hold_on_an_unknown_job_is_not_found(bench: Bench) -> None:
    async with bench.refuses(NotFound):
        await bench.store.journal.hold("job_unknown", lambda _head: CANCEL)


async def a_hold_takes_a_job_whose_lease_is_over(bench: Bench) -> None:
    old = await bench.drive_new(ttl_us=0)
    assert await bench.store.journal.hold(old.job_id, lambda _head: REQUEUE) is not None
    async with bench.refuses(Fenced):
        await bench.store.journal.append(old.build(step("too late")))
    assert await bench.store.leases.renew([old.held]) == set()
    new = await bench.drive(old.grant.queue)
    assert new.grant.fence == old.grant.fence + 2, "one for the hold, one for the claim"


async def a_hold_writes_its_extras(bench: Bench) -> None:
    parent, child = await bench.drive_new(), await bench.submit()
    await parent.wait(WaitReason.CHILD)
    letter = MailDraft(job_id=parent.job_id, kind=MailKind.CHILD, operation_id="op-1")
    ruling = Ruling(CANCEL.events, CANCEL.move, Extras(letters=(letter,)))
    await bench.store.journal.hold(child, lambda _head: ruling)
    assert (await bench.store.jobs.head(parent.job_id)).status is Status.PENDING
