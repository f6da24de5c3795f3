"""Delivery: a message and the job that will read it are stored together, or neither is."""

from __future__ import annotations

from holdfast.errors import InvalidPayload, KeyReused
from holdfast.model.append import Move
from holdfast.model.events import JobCancellation
from holdfast.model.inbox import BatchState
from holdfast.model.jobs import JobDraft
from holdfast.model.session import TurnCommit, stamp_commit
from holdfast.model.states import Status, WaitReason
from holdfast.store.ports.journal import Ruling
from holdfast.testing.conformance.drafts import message
from holdfast.testing.conformance.harness import Bench, present

_JOB = JobDraft(kind="chat", session_id="root")


async def a_message_arrives_with_its_job(bench: Bench) -> None:
    batch = await bench.store.inbox.deliver(message("one"), _JOB)
    record = await bench.store.jobs.get(batch.batch_id)
    assert (record.kind, record.session_id, record.status) == ("chat", "root", Status.PENDING)
    assert batch.job_id == batch.batch_id
    assert await bench.list_queued() == [batch.batch_id]


async def a_second_message_stands_behind_the_first(bench: Bench) -> None:
    await bench.store.inbox.deliver(message("one"), _JOB)
    second = await bench.store.inbox.deliver(message("two"), _JOB)
    record = await bench.store.jobs.get(second.batch_id)
    assert (record.status, record.wait_reason) == (Status.WAITING, WaitReason.JOINED)


async def a_message_sent_twice_arrives_once(bench: Bench) -> None:
    job = JobDraft(kind="chat", session_id="root", request_key="mine")
    first = await bench.store.inbox.deliver(message("one"), job)
    async with bench.expect_unchanged():
        assert await bench.store.inbox.deliver(message("another text"), job) == first


async def a_message_whose_job_is_refused_does_not_arrive(bench: Bench) -> None:
    await bench.submit(request_key="mine", input="something else")
    async with bench.refuses(KeyReused):
        await bench.store.inbox.deliver(
            message("one"), JobDraft(kind="chat", session_id="root", request_key="mine")
        )
    async with bench.refuses(InvalidPayload):
        await bench.store.inbox.deliver(message("one"), JobDraft(kind="chat", session_id="other"))
    assert await bench.list_queued() == []


async def a_message_whose_job_is_cancelled_is_not_answered_later(bench: Bench) -> None:
    """The job's own message is cancelled with it; batches of others that it held are free again."""
    first = await bench.store.inbox.deliver(message("one"), _JOB)
    second = await bench.store.inbox.deliver(message("two"), _JOB)
    driver = await bench.drive("default")
    for _ in range(2):
        present(await bench.claim(owner=first.batch_id), "a claim")
    assert await bench.pending() == []
    await driver.send(driver.build(JobCancellation(), move=Move(status=Status.CANCELLED)))
    assert await bench.pending() == [second.batch_id]
    gone = present(await bench.store.inbox.find("root", first.batch_id), "its receipt")
    assert (gone.state, gone.items) == (BatchState.CANCELLED, ())
    assert (await bench.store.jobs.get(second.batch_id)).status is Status.PENDING


async def a_message_that_another_turn_has_heard_stays_with_it(bench: Bench) -> None:
    """The message's own job is cancelled meanwhile; the turn that holds the message can still be committed."""
    first = await bench.store.inbox.deliver(message("one"), _JOB)
    second = await bench.store.inbox.deliver(message("two"), _JOB)
    claims = [present(await bench.claim(owner=first.batch_id), "a claim") for _ in range(2)]
    gone = Ruling((JobCancellation(),), Move(status=Status.CANCELLED))
    assert await bench.store.journal.hold(second.batch_id, lambda _head: gone) is not None
    completes = tuple(claim.completion() for claim in claims)
    await bench.store.sessions.commit(TurnCommit(session_id="root", completes=completes))
    assert await bench.list_queued() == []


async def a_batch_is_found_until_it_is_settled_and_after(bench: Bench) -> None:
    assert await bench.store.inbox.find("root", "nobody") is None
    batch = await bench.store.inbox.deliver(message("one"), _JOB)
    assert await bench.store.inbox.find("root", batch.batch_id) == batch
    claim = present(await bench.claim(), "a claim")
    commit = stamp_commit(TurnCommit(session_id="root", completes=(claim.completion(),)), "turn-1")
    await bench.store.sessions.commit(commit)
    found = present(await bench.store.inbox.find("root", batch.batch_id), "its receipt")
    assert (found.state, found.settled_by, found.items) == (BatchState.COMPLETED, "turn-1", ())
