"""A message and the job that will read it: both are there, or neither."""

from __future__ import annotations

from holdfast.errors import InvalidPayload, KeyReused
from holdfast.model.inbox import BatchState
from holdfast.model.jobs import JobDraft
from holdfast.model.session import TurnCommit, stamped
from holdfast.model.states import Status, WaitReason
from holdfast.testing.conformance.bench import Bench, present
from holdfast.testing.conformance.drafts import message

_JOB = JobDraft(kind="chat", session_id="root")


async def a_message_arrives_with_its_job(bench: Bench) -> None:
    batch = await bench.store.inbox.deliver(message("one"), _JOB)
    record = await bench.store.jobs.get(batch.batch_id)
    assert (record.kind, record.session_id, record.status) == ("chat", "root", Status.PENDING)
    assert batch.job_id == batch.batch_id
    assert await bench.queued() == [batch.batch_id]


async def a_second_message_stands_behind_the_first(bench: Bench) -> None:
    await bench.store.inbox.deliver(message("one"), _JOB)
    second = await bench.store.inbox.deliver(message("two"), _JOB)
    record = await bench.store.jobs.get(second.batch_id)
    assert (record.status, record.wait_reason) == (Status.WAITING, WaitReason.JOINED)


async def a_message_sent_twice_arrives_once(bench: Bench) -> None:
    job = JobDraft(kind="chat", session_id="root", request_key="mine")
    first = await bench.store.inbox.deliver(message("one"), job)
    async with bench.unchanged():
        assert await bench.store.inbox.deliver(message("another text"), job) == first


async def a_message_whose_job_is_refused_does_not_arrive(bench: Bench) -> None:
    await bench.submit(request_key="mine", input="something else")
    async with bench.refuses(KeyReused):
        await bench.store.inbox.deliver(
            message("one"), JobDraft(kind="chat", session_id="root", request_key="mine")
        )
    async with bench.refuses(InvalidPayload):
        await bench.store.inbox.deliver(message("one"), JobDraft(kind="chat", session_id="other"))
    assert await bench.queued() == []


async def a_batch_is_found_until_it_is_settled_and_after(bench: Bench) -> None:
    assert await bench.store.inbox.find("root", "nobody") is None
    batch = await bench.store.inbox.deliver(message("one"), _JOB)
    assert await bench.store.inbox.find("root", batch.batch_id) == batch
    claim = present(await bench.claim(), "a claim")
    commit = stamped(TurnCommit(session_id="root", completes=(claim.completion(),)), "turn-1")
    await bench.store.sessions.commit(commit)
    found = present(await bench.store.inbox.find("root", batch.batch_id), "its receipt")
    assert (found.state, found.settled_by, found.items) == (BatchState.COMPLETED, "turn-1", ())
