"""Claims: which jobs a worker is granted, and in which order."""

from __future__ import annotations

from holdfast.errors import Fenced
from holdfast.model.append import Move
from holdfast.model.events import JobClaimed, JobReleased, JobWaiting
from holdfast.model.hash_chain import Head, find_break, unseal
from holdfast.model.states import HELD, Status, WaitReason
from holdfast.model.time import MINUTE, SECOND
from holdfast.store.ports.leases import AHEAD_US, HeldLease
from holdfast.testing.conformance.driver import step
from holdfast.testing.conformance.harness import Bench


async def a_granted_job_runs_under_the_workers_token(bench: Bench) -> None:
    job_id = await bench.submit(session_id="root")
    before = await bench.store.jobs.head(job_id)
    token = bench.fresh("token")
    [grant] = await bench.grants("worker-1", ttl_us=MINUTE, token=token)
    head = await bench.store.jobs.head(job_id)

    assert (head.status, head.wait_reason, head.wake_at) == (Status.RUNNING, None, None)
    assert (head.lease_token, head.lease_owner, head.lease_boot) == (token, "worker-1", bench.clock.boot())
    assert head.lease_expires_at == bench.clock.tick_us() + MINUTE
    assert head.fence == before.fence + 1, "a larger fence than ever before"
    assert head.ready_at == before.ready_at, "when it was ready is when it was ready"

    assert (grant.job_id, grant.namespace, grant.kind) == (job_id, "default", "work")
    assert (grant.queue, grant.session_id) == ("default", "root")
    assert (grant.fence, grant.lease_token) == (head.fence, token)
    assert Head(grant.head_seq, grant.head_hash) == head.head
    assert (grant.mail_seq, grant.attempts, grant.takeovers, grant.takeover) == (0, 0, 0, False)
    assert grant.lease_expires_at == head.lease_expires_at


async def a_grant_is_the_newest_event(bench: Bench) -> None:
    job_id = await bench.submit()
    [grant] = await bench.grants("worker-1")
    events = await bench.store.journal.read(job_id)
    assert find_break(job_id, events) is None, "the grant continues the chain"
    assert unseal(events[-1]) == JobClaimed(worker="worker-1", takeover=False)
    assert (events[-1].seq, events[-1].hash) == (grant.head_seq, grant.head_hash)
    assert events[-1].fence == grant.fence, "written under the new fence"


async def a_first_claim_brings_the_journal_along(bench: Bench) -> None:
    new = [await bench.submit(input="small"), await bench.submit(input="x" * 20_000)]
    token = bench.fresh("token")
    for grants in [await bench.grants(limit=2, token=token) for _ in ("asked", "asked after a lost reply")]:
        assert [grant.job_id for grant in grants] == new
        for grant in grants:
            assert list(grant.journal) == await bench.store.journal.read(grant.job_id)


async def a_later_claim_leaves_the_journal_to_be_read(bench: Bench) -> None:
    job_id = await bench.submit()
    await bench.grants("worker-1", ttl_us=0)
    [grant] = await bench.grants("worker-2")
    assert (grant.job_id, grant.takeover, grant.journal) == (job_id, True, ())


async def a_running_job_is_granted_to_nobody_else(bench: Bench) -> None:
    job_id = await bench.submit()
    assert await bench.claimable() == [job_id]
    assert await bench.claimable(worker="next") == []


async def the_same_token_finds_the_same_grants(bench: Bench) -> None:
    await bench.submit()
    await bench.submit()
    token = bench.fresh("token")
    first = await bench.grants(limit=1, token=token)
    async with bench.expect_unchanged():
        assert await bench.grants(limit=2, token=token) == first, "asked again after a lost reply"
    assert len(await bench.grants(limit=2)) == 1, "the other job was left for others"


async def larger_priorities_go_first(bench: Bench) -> None:
    jobs = {priority: await bench.submit(priority=priority) for priority in (3, 10, 1, 5)}
    assert await bench.claimable() == [jobs[10], jobs[5], jobs[3], jobs[1]]


async def among_equals_the_oldest_goes_first_then_the_smallest_id(bench: Bench) -> None:
    now = bench.clock.wall_us()
    young = await bench.submit(ready_at=now - 1 * SECOND)
    twin = await bench.submit(ready_at=now - 2 * SECOND)
    other_twin = await bench.submit(ready_at=now - 2 * SECOND)
    old = await bench.submit(ready_at=now - 3 * SECOND)
    assert await bench.claimable() == [old, twin, other_twin, young]


async def by_age_priority_does_not_count(bench: Bench) -> None:
    now = bench.clock.wall_us()
    important = await bench.submit(priority=10, ready_at=now - 1 * SECOND)
    old = await bench.submit(priority=1, ready_at=now - 2 * SECOND)
    assert await bench.claimable(limit=1, by_age=True) == [old]
    assert await bench.claimable(limit=1, by_age=True) == [important]


async def a_claim_takes_no_more_than_its_limit(bench: Bench) -> None:
    jobs = [await bench.submit(priority=priority) for priority in (9, 8, 7)]
    assert await bench.claimable(limit=2) == jobs[:2]
    assert await bench.claimable(limit=2) == jobs[2:]


async def a_claim_looks_into_its_queues_only(bench: Bench) -> None:
    slow, fast = await bench.submit(queue="slow"), await bench.submit(queue="fast")
    await bench.submit(queue="other")
    assert await bench.claimable(queues=("nothing",)) == []
    assert await bench.claimable(queues=("fast",)) == [fast]
    assert await bench.claimable(queues=("fast", "slow")) == [slow]


async def a_claim_can_ask_for_kinds(bench: Bench) -> None:
    letter, call = await bench.submit("letter"), await bench.submit("call")
    await bench.submit("visit")
    assert await bench.claimable(kinds=("nothing",)) == []
    assert await bench.claimable(kinds=("call",)) == [call]
    assert await bench.claimable(kinds=("call", "letter")) == [letter]


async def a_job_is_not_claimable_before_it_is_ready(bench: Bench) -> None:
    job_id = await bench.submit(ready_at=bench.clock.wall_us() + MINUTE)
    assert await bench.claimable() == []
    bench.clock.advance(MINUTE - 1)
    assert await bench.claimable() == []
    bench.clock.advance(1)
    assert await bench.claimable() == [job_id]


async def a_waiting_job_is_claimable_when_its_timer_is_due(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.wait(WaitReason.TIMER, wake_at=bench.clock.wall_us() + MINUTE)
    queue = driver.grant.queue
    bench.clock.advance(MINUTE - 1)
    assert await bench.claimable(queues=(queue,)) == []
    bench.clock.advance(1)
    [grant] = await bench.grants(queues=(queue,))
    assert grant.job_id == driver.job_id
    assert not grant.takeover, "it gave its lease back when it went to sleep"
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.wait_reason, head.wake_at) == (None, None)


async def a_waiting_job_without_a_timer_is_not_claimable(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.wait(WaitReason.SIGNAL)
    bench.clock.advance(1000 * MINUTE)
    assert await bench.claimable(queues=(driver.grant.queue,)) == []


async def a_timer_wakes_every_reason_but_those_a_person_ends(bench: Bench) -> None:
    for reason in WaitReason:
        driver = await bench.drive_new()
        await driver.wait(reason, wake_at=bench.clock.wall_us())
        stays = reason in HELD or reason is WaitReason.JOINED
        woken = await bench.claimable(queues=(driver.grant.queue,))
        assert woken == ([] if stays else [driver.job_id]), f"a due timer and {reason}"


async def a_job_that_is_over_is_never_claimable(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.complete()
    bench.clock.advance(1000 * MINUTE)
    assert await bench.claimable(queues=(driver.grant.queue,)) == []


async def ready_due_and_lost_jobs_share_one_order(bench: Bench) -> None:
    now = bench.clock.wall_us()
    due = await bench.submit(priority=6, ready_at=now - 9 * SECOND)
    [grant] = await bench.grants()
    await bench.driver(grant).wait(WaitReason.TIMER, wake_at=now)
    lost = await bench.submit(priority=7, ready_at=now - 9 * SECOND)
    await bench.grants(ttl_us=0)
    ready = await bench.submit(priority=8, ready_at=now - 9 * SECOND)
    assert len({due, lost, ready}) == 3
    token = bench.fresh("token")
    granted = [grant.job_id for grant in await bench.grants("next", token=token)]
    assert granted == [ready, lost, due], "by priority, however they became claimable"


# ── restricted claims ─────────────────────────────────────────────────────────────────────────────


async def a_restricted_claim_takes_the_roots_and_their_descendants(bench: Bench) -> None:
    other = await bench.submit(priority=10)
    root = await bench.submit()
    child = await bench.submit(parent_job_id=root, parent_step_key="1/spawn")
    grandchild = await bench.submit(parent_job_id=child, parent_step_key="1/spawn")
    cousin = await bench.submit(parent_job_id=other, parent_step_key="1/spawn")
    second = await bench.submit()
    assert await bench.claimable(roots=()) == []
    assert await bench.claimable(roots=("nothing of this id",)) == []
    assert await bench.claimable(roots=(root, second)) == sorted([root, child, grandchild, second])
    assert await bench.claimable(roots=(root, second)) == [], "each once"
    assert set(await bench.claimable()) == {other, cousin}, "the others are still there"


async def a_restricted_claim_keeps_to_queues_and_kinds(bench: Bench) -> None:
    root = await bench.submit(kind="known", queue="mail")
    assert await bench.claimable(roots=(root,), queues=("default",)) == []
    assert await bench.claimable(roots=(root,), queues=("mail",), kinds=("other",)) == []
    assert await bench.claimable(roots=(root,), queues=("mail",), kinds=("known",)) == [root]


async def a_restricted_claim_finds_what_is_claimable_and_nothing_else(bench: Bench) -> None:
    now = bench.clock.wall_us()
    later = await bench.submit(ready_at=now + MINUTE)
    waiting = await bench.drive_new()
    await waiting.write(
        step("asleep"), move=Move(status=Status.WAITING, reason=WaitReason.TIMER, wake_at=now + MINUTE)
    )
    leased = await bench.drive_new(ttl_us=MINUTE)
    queues = ("default", waiting.grant.queue, leased.grant.queue)
    roots = (later, waiting.job_id, leased.job_id)
    assert await bench.claimable(roots=roots, queues=queues) == []
    bench.clock.advance(MINUTE)
    granted = await bench.grants(roots=roots, queues=queues)
    assert {grant.job_id: grant.takeover for grant in granted} == {
        later: False,
        waiting.job_id: False,
        leased.job_id: True,
    }


async def a_restricted_claim_that_is_repeated_finds_its_grants(bench: Bench) -> None:
    root = await bench.submit()
    first = await bench.grants(roots=(root,), token="same")
    assert await bench.grants(roots=(root,), token="same") == first, "the reply was lost"


async def a_restricted_claim_takes_an_expired_job_that_stands_before(bench: Bench) -> None:
    front = await bench.submit(session_id="root")
    back = await bench.submit(session_id="root")
    elsewhere = await bench.submit(session_id="another")
    [driven] = await bench.grants(roots=(front,), ttl_us=MINUTE)
    assert driven.job_id == front
    assert await bench.claimable(roots=(back,)) == [], "it is being driven"
    bench.clock.advance(MINUTE)
    [taken] = await bench.grants(roots=(back,))
    assert (taken.job_id, taken.takeover) == (front, True)
    assert await bench.claimable(roots=(front,)) == []
    assert await bench.claimable() == [elsewhere]


async def a_restricted_claim_leaves_a_ready_job_before_it_to_its_driver_for_a_while(bench: Bench) -> None:
    front = await bench.submit(session_id="root")
    back, last = await bench.submit(session_id="root"), await bench.submit(session_id="root")
    assert await bench.claimable(roots=(back, last)) == [], "whoever sent it is about to claim it"
    bench.clock.advance(AHEAD_US - 1)
    assert await bench.claimable(roots=(back, last)) == []
    bench.clock.advance(1)
    assert await bench.claimable(roots=(back, last)) == [front], "once, although two stand behind it"


async def a_restricted_claim_with_the_whole_session_takes_its_front_at_once(bench: Bench) -> None:
    front, back = await bench.submit(session_id="root"), await bench.submit(session_id="root")
    assert await bench.claimable(roots=(front, back)) == [front]


async def suspects_are_passed_over_on_request(bench: Bench) -> None:
    """A job with an expired lease counts one takeover more than its head; a claim without `suspect_at` takes all."""
    fresh, lost, twice = await bench.submit(), await bench.submit(), await bench.submit()
    await bench.grants("worker-1", limit=2, roots=(lost, twice), ttl_us=0)
    await bench.grants("worker-2", roots=(twice,), ttl_us=0)
    heads = [await bench.store.jobs.head(job_id) for job_id in (fresh, lost, twice)]
    assert [(head.status, head.takeovers) for head in heads] == [
        (Status.PENDING, 0),
        (Status.RUNNING, 0),
        (Status.RUNNING, 1),
    ]
    for by_age in (False, True):
        assert await bench.claimable(limit=3, suspect_at=0, by_age=by_age) == []
    assert await bench.claimable(limit=3, suspect_at=1, ttl_us=MINUTE) == [fresh]
    assert await bench.claimable(limit=3, suspect_at=2, by_age=True, ttl_us=MINUTE) == [lost]
    assert await bench.claimable(limit=3, suspect_at=2) == [], "twice has lost its second holder"
    assert await bench.claimable(roots=(twice,), suspect_at=2) == [twice], (
        "whoever asks for it by name gets it"
    )


async def a_suspect_that_is_ready_or_due_is_passed_over(bench: Bench) -> None:
    ready, due = await bench.submit(), await bench.submit()
    for _ in range(2):
        await bench.grants("worker-1", limit=2, ttl_us=0)
    for grant in await bench.grants("worker-2", limit=2):
        wake_at = bench.clock.wall_us() - 1 if grant.job_id == due else None
        waiting = Move(status=Status.WAITING, reason=WaitReason.TIMER, wake_at=wake_at)
        back = Move(status=Status.PENDING)
        driver = bench.driver(grant)
        if grant.job_id == due:
            await driver.write(JobWaiting(WaitReason.TIMER, wake_at), move=waiting)
        else:
            await driver.write(JobReleased(), move=back)
    for by_age in (False, True):
        assert await bench.claimable(limit=2, suspect_at=2, by_age=by_age) == []
    assert sorted(await bench.claimable(limit=2, suspect_at=3)) == sorted([ready, due])


async def a_lease_is_handed_over_without_a_takeover(bench: Bench) -> None:
    """The new holder has a larger fence, and the old one may no longer write; a lease that is not current, or was given
    back, cannot be handed over."""
    driver = await bench.drive_new("parent", ttl_us=MINUTE)
    old = driver.grant
    held = HeldLease(old.job_id, old.fence, old.lease_token)
    others = (
        HeldLease(old.job_id, old.fence + 1, old.lease_token),
        HeldLease(old.job_id, old.fence, "another"),
    )
    for wrong in (
        *others,
        HeldLease("nothing of this id", old.fence, old.lease_token),
        HeldLease(old.job_id, old.fence, ""),
    ):
        assert await bench.claimable(worker="child", handed=wrong) == []
    token = bench.fresh("token")
    [grant] = await bench.grants("child", handed=held, token=token)
    for repeated in (
        grant,
        *await bench.grants("child", handed=held, token=token),
    ):  # repeated after a lost reply
        assert repeated == grant
        assert (grant.job_id, grant.fence, grant.takeover) == (old.job_id, old.fence + 1, False)
        assert grant.takeovers == old.takeovers
    assert unseal((await bench.store.journal.read(old.job_id))[-1]) == JobClaimed(worker="child")
    assert await bench.claimable(worker="child", handed=held) == [], "once"
    async with bench.refuses(Fenced):
        await driver.write(step("late"))
    heir = bench.driver(grant)
    await heir.write(step("on time"))
    await heir.write(JobReleased(), move=Move(status=Status.PENDING))
    assert (
        await bench.claimable(worker="third", handed=HeldLease(grant.job_id, grant.fence, grant.lease_token))
        == []
    )
