"""Invalid requests: every store rejects them as the caller's mistake, and writes nothing.

A request that one database would accept and another reject must be rejected before either sees it; and a caller's
mistake must never look like a broken store, or a client could stop a worker with one odd character.
"""

from __future__ import annotations

from collections.abc import Awaitable

import msgspec

from holdfast.errors import InvalidMove, InvalidName, InvalidPayload, Misuse, NotFound
from holdfast.model.append import Extras, Move, Timer
from holdfast.model.events import JobWaiting
from holdfast.model.jobs import JobDraft
from holdfast.model.limits import APPEND_BYTES_MAX, EVENTS_PER_APPEND_MAX, INTEGER_MAX, JSON_BYTES_MAX
from holdfast.model.mailbox import MailDraft
from holdfast.model.session import Frame, SessionMeta, SessionNode, TurnCommit, TurnStamp, Usage
from holdfast.model.states import MailKind, Status
from holdfast.store.ports.attachments import AttachmentIntent
from holdfast.store.ports.journal import Ruling
from holdfast.testing.conformance.drafts import call_row, intent_of, message, node
from holdfast.testing.conformance.driver import step
from holdfast.testing.conformance.harness import Bench

BAD_NAMES = ("a\x00b", "\ud800")


async def an_unknown_namespace_is_not_found(bench: Bench) -> None:
    store = bench.store
    async with bench.refuses(NotFound):
        await store.jobs.submit(JobDraft(kind="work", namespace="elsewhere"))
    async with bench.refuses(NotFound):
        await store.inbox.enqueue(message("hello"), namespace="elsewhere")
    async with bench.refuses(NotFound):
        await store.sessions.commit(TurnCommit(session_id="root"), namespace="elsewhere")
    async with bench.refuses(NotFound):
        await store.sessions.save_meta(SessionMeta(session_id="root"), namespace="elsewhere")
    async with bench.refuses(NotFound):
        await store.attachments.record_intent(AttachmentIntent("a", "root", "uri", 1), namespace="elsewhere")
    async with bench.refuses(NotFound):
        await store.blobs.put(b"bytes", namespace="elsewhere")


async def a_bad_name_is_refused_in_a_session(bench: Bench) -> None:
    sessions = bench.store.sessions
    for bad in BAD_NAMES:
        async with bench.refuses(InvalidName):
            await sessions.commit(TurnCommit(session_id=bad))
        async with bench.refuses(InvalidName):
            await sessions.commit(TurnCommit(session_id="root"), handle=bad)
        async with bench.refuses(InvalidName):
            await sessions.commit(TurnCommit(session_id="root", nodes=(node(bad),)))
        async with bench.refuses(InvalidName):
            await sessions.commit(TurnCommit(session_id="root", frames=(Frame(frame_id=bad),)))
        async with bench.refuses(InvalidName):
            await sessions.commit(TurnCommit(session_id="root", stamp=TurnStamp("root", bad, "hash")))
        async with bench.refuses(InvalidName):
            await sessions.save_meta(SessionMeta(session_id=bad))
        async with bench.refuses(InvalidName):
            await bench.store.attachments.record_intent(AttachmentIntent(bad, "root", "uri", 1))


async def a_bad_name_is_refused_in_an_inbox(bench: Bench) -> None:
    for bad in BAD_NAMES:
        async with bench.refuses(InvalidName):
            await bench.store.inbox.enqueue(message("hello", session_id=bad))
        async with bench.refuses(InvalidName):
            await bench.store.inbox.enqueue(message("hello", batch_id=bad))
        async with bench.refuses(InvalidName):
            await bench.store.inbox.enqueue(message("hello", source_key=bad))


async def a_bad_name_is_refused_in_mail(bench: Bench) -> None:
    job_id = await bench.submit()
    for bad in BAD_NAMES:
        async with bench.refuses(InvalidName):
            await bench.store.post.send(MailDraft(job_id=job_id, kind=MailKind.SIGNAL, operation_id=bad))


async def odd_text_comes_back_or_is_the_callers_mistake(bench: Bench) -> None:
    driver = await bench.drive_new()
    for bad in BAD_NAMES:
        letter = MailDraft(
            job_id=driver.job_id, kind=MailKind.SIGNAL, operation_id=bench.fresh("op"), name=bad, sender=bad
        )
        if await _is_accepted(bench.store.post.send(letter)):
            assert (await bench.store.post.read(driver.job_id))[-1].sender == bad
        timer = driver.build(step(bench.fresh("timer")), extras=Extras(timers=(Timer(bad, 7),)))
        if await _is_accepted(driver.send(timer)):
            assert Timer(bad, 7) in await bench.store.post.timers(driver.job_id)
        for turn in (
            TurnCommit(session_id="root", nodes=(SessionNode(node_id="n", caused_by=bad),)),
            TurnCommit(session_id="root", frames=(Frame(frame_id="f", reason=bad, caused_by=bad),)),
            TurnCommit(session_id="root", usage=(Usage(source=bad, model=bad),)),
        ):
            if await _is_accepted(bench.store.sessions.commit(turn)):
                view = await bench.load()
                assert {*turn.nodes, *turn.usage} <= {*view.graph.nodes, *view.usage}
                assert all(frame in view.frames for frame in turn.frames)


async def odd_names_find_nothing_and_break_nothing(bench: Bench) -> None:
    store = bench.store
    for bad in BAD_NAMES:
        async with bench.refuses(Misuse):
            await store.jobs.get(bad)
        async with bench.expect_unchanged():
            await _is_accepted(store.jobs.find("default", bad))
            await _is_accepted(store.journal.read(bad))
            await _is_accepted(store.post.read(bad))
            await _is_accepted(store.ledger.find(bad, bad))
            await _is_accepted(store.sessions.load(bad))
            await _is_accepted(store.sessions.find_bound_session(bad))
            await _is_accepted(store.sessions.node("root", bad))
            await _is_accepted(store.inbox.list(bad))
            await _is_accepted(store.inbox.cancel("root", bad))
            await _is_accepted(bench.grants(bad, queues=(bad,)))


async def a_number_that_fits_no_column_is_the_callers_mistake(bench: Bench) -> None:
    huge = INTEGER_MAX + 1
    usage = Usage(source="turn", model="small", input_tokens=huge)
    async with bench.refuses(Misuse):
        await bench.store.sessions.commit(TurnCommit(session_id="root", usage=(usage,)))
    async with bench.refuses(Misuse):
        await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(node("a", at=huge),)))
    async with bench.refuses(Misuse):
        await bench.store.jobs.submit(JobDraft(kind="work", ready_at=huge))
    async with bench.refuses(Misuse):
        await bench.store.inbox.enqueue(message("hello", available_at=huge))


async def a_parent_must_be_there_and_in_the_same_namespace(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    parent = await bench.submit()
    async with bench.refuses(Misuse):
        await bench.store.jobs.submit(JobDraft(kind="work", parent_job_id="job_unknown"))
    async with bench.refuses(Misuse):
        await bench.store.jobs.submit(JobDraft(kind="work", parent_job_id=parent, namespace="elsewhere"))


async def a_move_that_makes_no_sense_is_refused(bench: Bench) -> None:
    driver = await bench.drive_new()
    for move in (Move(status=Status.RUNNING), Move(status=Status.WAITING)):
        async with bench.refuses(InvalidMove):
            await bench.store.journal.append(driver.build(JobWaiting(reason="signal"), move=move))
    job_id = await bench.submit()
    async with bench.refuses(InvalidMove):
        ruling = Ruling((step("one"),), Move(status=Status.RUNNING))
        await bench.store.journal.hold(job_id, lambda _head: ruling)


async def an_append_without_events_is_refused(bench: Bench) -> None:
    driver = await bench.drive_new()
    async with bench.refuses(InvalidMove):
        await bench.store.journal.append(driver.build())


async def an_append_beyond_its_limits_is_refused(bench: Bench) -> None:
    driver = await bench.drive_new()
    async with bench.refuses(InvalidPayload):
        many = [step(f"number {n}") for n in range(EVENTS_PER_APPEND_MAX + 1)]
        await bench.store.journal.append(driver.build(*many))
    async with bench.refuses(InvalidPayload):
        size = JSON_BYTES_MAX // 2
        heavy = [step(f"number {n}", "x" * size) for n in range(APPEND_BYTES_MAX // size + 1)]
        await bench.store.journal.append(driver.build(*heavy))


async def a_letter_to_an_unknown_job_refuses_the_append(bench: Bench) -> None:
    driver = await bench.drive_new()
    letter = MailDraft(job_id="job_unknown", kind=MailKind.SIGNAL, operation_id="op-1")
    async with bench.refuses(NotFound):
        await bench.store.journal.append(driver.build(step("one"), extras=Extras(letters=(letter,))))


async def a_call_of_another_job_is_refused(bench: Bench) -> None:
    driver, other = await bench.drive_new(), await bench.drive_new()
    row = call_row(other, "1/mail#1")
    async with bench.refuses(Misuse):
        await bench.store.journal.append(driver.build(intent_of(row), extras=Extras(calls=(row,))))


async def a_call_id_of_another_call_is_refused(bench: Bench) -> None:
    driver = await bench.drive_new()
    first = call_row(driver, "1/mail#1")
    await driver.write(intent_of(first), extras=Extras(calls=(first,)))
    second = msgspec.structs.replace(call_row(driver, "1/mail#2"), tool_call_id=first.tool_call_id)
    async with bench.refuses(Misuse):
        await bench.store.journal.append(driver.build(intent_of(second), extras=Extras(calls=(second,))))


async def _is_accepted(request: Awaitable[object]) -> bool:
    """Whether the store accepted the request. Rejecting it as the caller's mistake is fine, any other error is not."""
    try:
        await request
    except Misuse:
        return False
    return True
