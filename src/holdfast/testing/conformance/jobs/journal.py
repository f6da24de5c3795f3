"""The fenced append: what is accepted, what is rejected, and the order of the checks."""

from __future__ import annotations

import msgspec

from holdfast.errors import Broken, Fenced, KeyReused, MailWaiting, NotFound
from holdfast.model.append import Append, Extras, Move, Timer
from holdfast.model.events import CheckpointSaved, JobCompleted, JobRequeued, JobWaiting
from holdfast.model.hash_chain import Head, find_break, unseal
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.testing.conformance.drafts import call_row, intent_of
from holdfast.testing.conformance.driver import Driver, step
from holdfast.testing.conformance.harness import Bench

STRANGER = "somebody else"


async def an_append_continues_the_journal(bench: Bench) -> None:
    driver = await bench.drive_new()
    append = await driver.write(step("one", {"n": 1}), step("two"))
    events = await bench.store.journal.read(driver.job_id)
    assert tuple(events[-2:]) == append.events, "what was sealed is what is read"
    assert [event.seq for event in events] == [1, 2, 3, 4]
    assert find_break(driver.job_id, events) is None
    assert unseal(events[2]) == step("one", {"n": 1})
    head = await bench.store.jobs.head(driver.job_id)
    assert head.head == append.head == Head(4, events[-1].hash)
    assert head.status is Status.RUNNING, "without a move the job runs on"


async def a_journal_can_be_read_in_parts(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.write(step("one"), step("two"), step("three"))
    events = await bench.store.journal.read(driver.job_id)
    assert await bench.store.journal.read(driver.job_id, after=2) == events[2:]
    assert await bench.store.journal.read(driver.job_id, after=1, limit=2) == events[1:3]
    assert await bench.store.journal.read(driver.job_id, after=5) == []


async def a_look_shows_the_head_and_the_first_events(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.write(step("one", "x" * 20_000), step("two"), step("three"))
    head, events = await bench.store.jobs.head(driver.job_id), await bench.store.journal.read(driver.job_id)
    assert await bench.store.jobs.read_with_events(driver.job_id, events=5) == (head, events)
    assert await bench.store.jobs.read_with_events(driver.job_id, events=3) == (head, events[:3])
    assert await bench.store.jobs.read_with_events(driver.job_id, events=0) == (head, [])
    async with bench.refuses(NotFound):
        await bench.store.jobs.read_with_events("nobody", events=5)


async def a_resume_reads_from_the_last_commit_on(bench: Bench) -> None:
    """The first event, the last one before the commit, and the rest; all events, if that is no more."""
    driver = await bench.drive_new()
    since_commit = bench.store.journal.since_commit
    assert await since_commit("nobody") == []
    await driver.write(step("one"), step("two"))
    everything = await bench.store.journal.read(driver.job_id)
    assert await since_commit(driver.job_id) == everything, "there was no commit"
    await driver.write(CheckpointSaved(1, {"text": "x" * 20_000}), step("three"), step("four"))
    everything = await bench.store.journal.read(driver.job_id)
    assert await since_commit(driver.job_id) == [everything[0], *everything[3:]]
    assert await since_commit(driver.job_id, limit=3) == [everything[0], *everything[3:6]]
    await driver.write(CheckpointSaved(2))
    everything = await bench.store.journal.read(driver.job_id)
    assert await since_commit(driver.job_id) == [everything[0], *everything[6:]], "the newest one counts"
    await driver.write(*(step(f"far {number}") for number in range(40)))
    everything = await bench.store.journal.read(driver.job_id)
    assert await since_commit(driver.job_id) == [everything[0], *everything[6:]], "however long ago"
    assert await since_commit(driver.job_id, limit=3) == [everything[0], *everything[6:9]]


async def a_commit_near_the_beginning_leaves_nothing_out(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.write(CheckpointSaved(1), step("one"))
    everything = await bench.store.journal.read(driver.job_id)
    assert [event.type for event in everything[:3]] == ["job_created", "job_claimed", "checkpoint_saved"]
    assert await bench.store.journal.since_commit(driver.job_id) == everything


async def several_journals_can_be_read_at_once(bench: Bench) -> None:
    first, other = await bench.drive_new(), await bench.drive_new()
    await first.write(step("one", {"n": 1}))
    await other.write(step("large", {"text": "x" * 20_000}))
    found = await bench.store.journal.read_many([other.job_id, "nobody", first.job_id])
    assert found == {
        driver.job_id: await bench.store.journal.read(driver.job_id) for driver in (first, other)
    }
    assert all(len(events) == 3 and None not in [event.body for event in events] for events in found.values())


async def an_append_whose_reply_was_lost_is_recognised(bench: Bench) -> None:
    driver = await bench.drive_new()
    other = await bench.submit()
    letter = MailDraft(job_id=other, kind=MailKind.SIGNAL, operation_id="op-1")
    append = driver.build(step("one"), extras=Extras(letters=(letter,), timers=(Timer("1/sleep#1", 7),)))
    await driver.send(append)
    async with bench.expect_unchanged():
        assert await bench.store.journal.append(append) == append.head, "it was written, so it succeeds"


async def a_last_append_whose_reply_was_lost_is_recognised(bench: Bench) -> None:
    driver = await bench.drive_new()
    for append in (await driver.wait(WaitReason.SIGNAL), await _complete_job(bench)):
        async with bench.expect_unchanged():
            assert await bench.store.journal.append(append) == append.head, "though the lease is gone"


async def a_recognised_append_needs_no_mail(bench: Bench) -> None:
    driver = await bench.drive_new()
    append = driver.build(step("one"), mail_seen=0)
    await driver.send(append)
    await _send_signal(bench, driver)
    async with bench.expect_unchanged():
        assert await bench.store.journal.append(append) == append.head


async def an_append_to_an_unknown_job_is_not_found(bench: Bench) -> None:
    driver = await bench.drive_new()
    async with bench.refuses(NotFound):
        stray = msgspec.structs.replace(driver.build(step("one")), job_id="job_unknown")
        await bench.store.journal.append(stray)


async def an_old_fence_is_fenced(bench: Bench) -> None:
    old = await bench.drive_new(ttl_us=0)
    await bench.drive(old.grant.queue)
    async with bench.refuses(Fenced):
        await bench.store.journal.append(old.build(step("one")))


async def a_foreign_token_is_fenced(bench: Bench) -> None:
    driver = await bench.drive_new()
    append = driver.build(step("one"))
    for token in (STRANGER, ""):
        async with bench.refuses(Fenced):
            await bench.store.journal.append(msgspec.structs.replace(append, lease_token=token))


async def a_job_that_was_given_back_is_fenced(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.release()
    async with bench.refuses(Fenced):
        await bench.store.journal.append(driver.build(step("one")))
    waiting = await bench.drive_new()
    await waiting.wait(WaitReason.SIGNAL)
    async with bench.refuses(Fenced):
        await bench.store.journal.append(waiting.build(step("one")))


async def no_token_is_no_way_into_a_job_that_nobody_holds(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.release()
    async with bench.refuses(Fenced):
        await bench.store.journal.append(msgspec.structs.replace(driver.build(step("one")), lease_token=""))


async def a_job_that_is_over_is_fenced(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.complete()
    async with bench.refuses(Fenced):
        await bench.store.journal.append(driver.build(step("one")))


async def an_append_whose_reply_was_lost_before_a_takeover_is_fenced(bench: Bench) -> None:
    old = await bench.drive_new(ttl_us=0)
    append = await old.write(step("one"))
    await bench.drive(old.grant.queue)
    async with bench.refuses(Fenced):
        await bench.store.journal.append(append)


async def the_right_holder_with_another_head_is_broken(bench: Bench) -> None:
    driver = await bench.drive_new()
    fork = driver.build(step("this"))
    await driver.write(step("that"))
    async with bench.refuses(Broken):
        await bench.store.journal.append(fork)


async def fenced_is_said_before_broken_and_broken_before_mail(bench: Bench) -> None:
    driver = await bench.drive_new()
    fork = driver.build(step("this"), mail_seen=0)
    await driver.write(step("that"))
    await _send_signal(bench, driver)
    async with bench.refuses(Broken):
        await bench.store.journal.append(fork)
    async with bench.refuses(Fenced):
        await bench.store.journal.append(msgspec.structs.replace(fork, lease_token=STRANGER))


async def unread_mail_refuses_an_append_that_asks(bench: Bench) -> None:
    driver = await bench.drive_new()
    await _send_signal(bench, driver)
    finish = (JobCompleted(),)
    async with bench.refuses(MailWaiting) as refusal:
        append = driver.build(*finish, move=Move(status=Status.COMPLETED), mail_seen=0)
        await bench.store.journal.append(append)
    assert refusal.error.mail_seq == 1, "the error says how far the mail goes"
    await driver.write(step("did not ask"))
    await driver.write(*finish, move=Move(status=Status.COMPLETED), mail_seen=1)


async def append_many_gives_each_its_own_outcome(bench: Bench) -> None:
    good, fenced, broken, asking, last = [await bench.drive_new() for _ in range(5)]
    await fenced.release()
    fork = broken.build(step("this"))
    await broken.write(step("that"))
    await _send_signal(bench, asking)
    appends = [
        good.build(step("one")),
        fenced.build(step("one")),
        fork,
        asking.build(step("one"), mail_seen=0),
        last.build(JobCompleted(), move=Move(status=Status.COMPLETED)),
    ]
    outcomes = await bench.store.journal.append_many(appends)
    assert outcomes[0] == appends[0].head
    assert isinstance(outcomes[1], Fenced)
    assert isinstance(outcomes[2], Broken)
    assert isinstance(outcomes[3], MailWaiting)
    assert outcomes[4] == appends[4].head
    assert len(outcomes) == 5
    for driver, append in zip((good, last), (appends[0], appends[4]), strict=True):
        assert (await bench.store.jobs.head(driver.job_id)).head == append.head
    for driver in (fenced, broken, asking):
        assert (await bench.store.jobs.head(driver.job_id)).head == driver.holder.head, (
            "nothing of it was written"
        )
    assert await bench.store.journal.append_many([]) == []


async def a_batch_writes_every_fact_and_every_move(bench: Bench) -> None:
    """Several events each, some with a status change: each journal has exactly the events of its append."""
    waiting, again, done, running, fenced = [await bench.drive_new() for _ in range(5)]
    await fenced.release()
    facts = [step("one", {"text": 'of "its" own, \\ {too}'}), step("two"), step("three", [None, 1.5])]
    asleep = Move(status=Status.WAITING, reason=WaitReason.TIMER, wake_at=2**60)
    appends = [
        waiting.build(*facts[:2], JobWaiting(WaitReason.TIMER, 2**60), move=asleep, progress=True),
        fenced.build(step("never"), JobCompleted(), move=Move(status=Status.COMPLETED)),
        again.build(JobRequeued(why="asked"), move=Move(status=Status.PENDING, ready_at=2**59)),
        running.build(*facts, progress=True),
        done.build(facts[2], JobCompleted({"n": 1}), move=Move(status=Status.COMPLETED)),
    ]
    outcomes = await bench.store.journal.append_many(appends)
    assert isinstance(outcomes.pop(1), Fenced)
    del appends[1]
    assert outcomes == [append.head for append in appends]
    heads = [await bench.store.jobs.head(append.job_id) for append in appends]
    assert [head.head for head in heads] == outcomes
    assert [head.status for head in heads] == ["waiting", "pending", "running", "completed"]
    assert [head.wait_reason for head in heads] == [WaitReason.TIMER, None, None, None]
    assert (heads[0].wake_at, heads[1].ready_at) == (2**60, 2**59)
    for append in appends:
        events = await bench.store.journal.read(append.job_id)
        assert tuple(events[-len(append.events) :]) == append.events
        assert find_break(append.job_id, events) is None
    assert (await bench.store.jobs.head(fenced.job_id)).head == fenced.holder.head


async def one_broken_rule_in_a_batch_harms_no_neighbour(bench: Bench) -> None:
    first, bad, last = [await bench.drive_new() for _ in range(3)]
    taken = call_row(first, "1/mail#1")
    await first.write(intent_of(taken), extras=Extras(calls=(taken,)))
    thief = msgspec.structs.replace(call_row(bad, "1/mail#1"), idempotency_key=taken.idempotency_key)
    appends = [
        first.build(step("one"), extras=Extras(timers=(Timer("1/sleep#1", 7),))),
        bad.build(intent_of(thief), extras=Extras(calls=(thief,), timers=(Timer("1/sleep#1", 7),))),
        last.build(step("one")),
    ]
    outcomes = await bench.store.journal.append_many(appends)
    assert (outcomes[0], outcomes[2]) == (appends[0].head, appends[2].head)
    assert isinstance(outcomes[1], KeyReused)
    assert (await bench.store.jobs.head(bad.job_id)).head == bad.holder.head
    assert len(await bench.store.post.timers(first.job_id)) == 1
    assert await bench.store.post.timers(bad.job_id) == []
    await bad.write(step("and it goes on"))


async def appends_of_a_batch_are_recognised_when_sent_again(bench: Bench) -> None:
    drivers = [await bench.drive_new() for _ in range(3)]
    appends = [driver.build(step("one")) for driver in drivers]
    first = await bench.store.journal.append_many(appends)
    async with bench.expect_unchanged():
        assert await bench.store.journal.append_many(appends) == first == [append.head for append in appends]


async def a_journal_survives_a_new_handle(bench: Bench) -> None:
    driver = await bench.drive_new(input={"n": 1})
    await driver.write(step("one", {"n": 1}))
    before = await bench.store.journal.read(driver.job_id)
    await bench.reopen()
    events = await bench.store.journal.read(driver.job_id)
    assert events == before
    assert find_break(driver.job_id, events) is None


async def _send_signal(bench: Bench, driver: Driver) -> None:
    letter = MailDraft(job_id=driver.job_id, kind=MailKind.SIGNAL, operation_id=bench.fresh("op"))
    await bench.store.post.send(letter)


async def _complete_job(bench: Bench) -> Append:
    return await (await bench.drive_new()).complete()
