"""Payloads are read back unchanged, or rejected before anything is written."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidPayload, TooLarge
from holdfast.model.events import JobCreated, StepFinished
from holdfast.model.hash_chain import unseal
from holdfast.model.inbox import BatchDraft, ItemDraft
from holdfast.model.jobs import JobDraft
from holdfast.model.limits import JSON_BYTES_MAX, JSON_DEPTH_MAX
from holdfast.model.mailbox import MailDraft
from holdfast.model.session import CollectionResult, Frame, SessionCheckpoint, SessionMeta, TurnCommit
from holdfast.model.states import MailKind
from holdfast.model.time import HOUR
from holdfast.testing.conformance.drafts import AWKWARD, LARGE, node
from holdfast.testing.conformance.driver import step
from holdfast.testing.conformance.harness import Bench, present


async def awkward_text_comes_back_as_it_was(bench: Bench) -> None:
    await _comes_back_from_jobs(bench, AWKWARD)
    await _comes_back_from_sessions(bench, AWKWARD)


async def large_payloads_come_back_as_they_were(bench: Bench) -> None:
    await _comes_back_from_jobs(bench, {"text": LARGE})
    await _comes_back_from_sessions(bench, {"text": LARGE})


async def garbage_collection_keeps_large_payloads(bench: Bench) -> None:
    driver = await bench.drive_new(input=LARGE)
    await driver.write(step("one", LARGE + "in an event"))
    letter = MailDraft(
        job_id=driver.job_id, kind=MailKind.SIGNAL, operation_id="op-1", body=LARGE + "in mail"
    )
    await bench.store.post.send(letter)
    await bench.store.inbox.enqueue(_draft_batch(LARGE + "in the inbox"))
    turn = TurnCommit(session_id="root", nodes=(node("a", body=LARGE + "in a node"),))
    await bench.store.sessions.commit(turn)
    async with bench.expect_unchanged():
        bench.clock.advance(HOUR)
        await bench.store.sessions.gc()


async def garbage_collection_counts_what_is_in_use(bench: Bench) -> None:
    driver = await bench.drive_new(input=LARGE)
    letter = MailDraft(
        job_id=driver.job_id, kind=MailKind.SIGNAL, operation_id="op-1", body=LARGE + "in mail"
    )
    await bench.store.post.send(letter)
    await bench.store.inbox.enqueue(_draft_batch(LARGE + "in the inbox"))
    large = LARGE.encode()
    checkpoint = SessionCheckpoint(
        tool_state=large + b"1", plugin_snapshot=large + b"2", execution_state=large + b"3"
    )
    frame = Frame(frame_id="f1", snapshot=large + b"in a frame")
    nodes = (node("a", body=LARGE + "in a node"), node("b", body="small"))
    await bench.store.sessions.commit(
        TurnCommit(session_id="root", nodes=nodes, frames=(frame,), checkpoint=checkpoint)
    )
    bench.clock.advance(HOUR)
    assert await bench.store.sessions.gc() == CollectionResult(roots=8, retained=0, deleted=0)
    await bench.store.sessions.commit(TurnCommit(session_id="root", replace=True))
    assert await bench.store.sessions.gc() == CollectionResult(roots=4, retained=0, deleted=4), (
        "an old state is garbage"
    )
    claim = present(await bench.claim(), "a claim")
    await bench.store.sessions.commit(TurnCommit(session_id="root", completes=(claim.completion(),)))
    assert await bench.store.sessions.gc() == CollectionResult(roots=3, retained=0, deleted=1), (
        "and so is a used input"
    )


async def the_same_large_payload_may_lie_in_many_places(bench: Bench) -> None:
    first, second = await bench.drive_new(input=LARGE), await bench.drive_new(input=LARGE)
    for driver in (first, second):
        await driver.write(step("one", LARGE), step("two", LARGE))
        events = [unseal(event) for event in await bench.store.journal.read(driver.job_id)]
        assert [event.result for event in events if isinstance(event, StepFinished)] == [LARGE, LARGE]


async def large_payloads_of_two_namespaces_do_not_meet(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    for namespace in ("default", "elsewhere"):
        driver = await bench.drive_new(namespace=namespace, input=LARGE)
        [created, _claimed] = await bench.store.journal.read(driver.job_id)
        event = unseal(created)
        assert isinstance(event, JobCreated)
        assert event.input == LARGE


async def an_oversized_payload_is_refused_everywhere(bench: Bench) -> None:
    await _is_refused(bench, "x" * (JSON_BYTES_MAX + 1), TooLarge)


async def a_payload_that_is_not_json_is_refused_everywhere(bench: Bench) -> None:
    deep: list[Any] = []
    for _ in range(JSON_DEPTH_MAX + 1):
        deep = [deep]
    for bad in (float("nan"), float("inf"), {1: "a key that is no text"}, 2**63, {"bytes": b"raw"}, deep):
        await _is_refused(bench, bad, InvalidPayload)


async def _comes_back_from_jobs(bench: Bench, value: Any) -> None:
    driver = await bench.drive_new(input=value)
    await driver.write(step("one", value))
    created, _claimed, finished = [unseal(event) for event in await bench.store.journal.read(driver.job_id)]
    assert isinstance(created, JobCreated)
    assert isinstance(finished, StepFinished)
    assert created.input == value
    assert finished.result == value
    draft = MailDraft(job_id=driver.job_id, kind=MailKind.SIGNAL, operation_id="op-1", body=value)
    await bench.store.post.send(draft)
    assert [letter.body for letter in await bench.store.post.read(driver.job_id)] == [value]


async def _comes_back_from_sessions(bench: Bench, value: Any) -> None:
    sessions = bench.store.sessions
    await bench.store.inbox.enqueue(_draft_batch(value))
    [batch] = await bench.store.inbox.list("root")
    assert batch.items[0].payload == value
    frame = Frame(frame_id="f1", assignment=value, options=value)
    checkpoint = SessionCheckpoint(options=value, tool_state=bytes(range(256)) * 100)
    turn = TurnCommit(
        session_id="root",
        nodes=(node("a", body=value),),
        frames=(frame,),
        frame_id="f1",
        checkpoint=checkpoint,
    )
    await sessions.commit(turn)
    view = await bench.load()
    assert view.graph.nodes[0].body == value
    assert view.frames == (frame,)
    assert view.checkpoint == checkpoint
    meta = SessionMeta(session_id="root", relation=value)
    await sessions.save_meta(meta)
    assert await sessions.meta("root") == meta


async def _is_refused(bench: Bench, value: Any, kind: type[InvalidPayload]) -> None:
    job_id = await bench.submit()
    async with bench.refuses(kind):
        await bench.store.jobs.submit(JobDraft(kind="work", input=value))
    async with bench.refuses(kind):
        await bench.store.jobs.submit_many([JobDraft(kind="work"), JobDraft(kind="work", input=value)])
    async with bench.refuses(kind):
        draft = MailDraft(job_id=job_id, kind=MailKind.SIGNAL, operation_id="op-1", body=value)
        await bench.store.post.send(draft)
    async with bench.refuses(kind):
        await bench.store.inbox.enqueue(_draft_batch(value))
    async with bench.refuses(kind):
        turn = TurnCommit(session_id="root", nodes=(node("fine"), node("bad", body=value)))
        await bench.store.sessions.commit(turn)
    async with bench.refuses(kind):
        await bench.store.sessions.commit(
            TurnCommit(session_id="root", checkpoint=SessionCheckpoint(options=value))
        )


def _draft_batch(value: Any) -> BatchDraft:
    return BatchDraft(session_id="root", items=(ItemDraft("turn_input", value),))
