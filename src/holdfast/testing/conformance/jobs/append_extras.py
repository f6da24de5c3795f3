"""Extras of an append, written in the same transaction as its events: children, mail, a turn of the session."""

from __future__ import annotations

import msgspec

from holdfast.errors import ClaimLost, Fenced, HeadMoved, InvalidMove, KeyReused, TurnConflict
from holdfast.model.append import Append, Extras, Timer
from holdfast.model.canonical import hex_digest
from holdfast.model.events import ChildStarted, LlmRequested, TurnCommitted
from holdfast.model.inbox import Claim
from holdfast.model.jobs import JobDraft
from holdfast.model.mailbox import MailDraft
from holdfast.model.session import SessionCheckpoint, TurnCommit, stamp_commit
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.testing.conformance.drafts import call_row, message, node
from holdfast.testing.conformance.driver import Driver, step
from holdfast.testing.conformance.harness import Bench, present


async def a_child_is_born_with_the_event_that_names_it(bench: Bench) -> None:
    parent = await bench.drive_new()
    append = await parent.write(
        ChildStarted("1/child#1", "job_child"), extras=Extras(children=(_draft_child(parent),))
    )
    record = await bench.store.jobs.get("job_child")
    assert (record.parent_job_id, record.parent_step_key) == (parent.job_id, "1/child#1")
    assert record.status is Status.PENDING
    assert len(await bench.store.journal.read("job_child")) == 1
    async with bench.expect_unchanged():
        await bench.store.journal.append(append)


async def a_child_that_exists_is_not_born_again(bench: Bench) -> None:
    parent = await bench.drive_new()
    child = _draft_child(parent)
    await parent.write(step("one"), extras=Extras(children=(child,)))
    await parent.write(step("two"), extras=Extras(children=(child,)))
    assert len(await bench.store.journal.read("job_child")) == 1


async def a_refused_append_has_no_children(bench: Bench) -> None:
    parent = await bench.drive_new()
    append = parent.build(step("one"), extras=Extras(children=(_draft_child(parent),)))
    await parent.release()
    async with bench.refuses(Fenced):
        await bench.store.journal.append(append)


async def a_child_that_is_refused_refuses_the_append(bench: Bench) -> None:
    parent = await bench.drive_new()
    await bench.submit(input="something else", request_key="key-1")
    child = msgspec.structs.replace(_draft_child(parent), request_key="key-1")
    async with bench.refuses(KeyReused):
        extras = Extras(timers=(Timer("1/sleep#1", 7),), children=(child,))
        await bench.store.journal.append(parent.build(step("one"), extras=extras))
    await parent.write(step("the parent can go on"))


async def bytes_are_kept_with_the_event_that_names_them(bench: Bench) -> None:
    """Small blobs and large ones, also a second time; a rejected append stores none."""
    driver = await bench.drive_new()
    large = b"x" * 100_000
    request = LlmRequested("1/m#1", "model", (hex_digest(b"small"), hex_digest(large)))
    await driver.write(request, extras=Extras(blobs=(b"small", large)))
    assert await bench.store.blobs.get(hex_digest(b"small")) == b"small"
    assert await bench.store.blobs.get(hex_digest(large)) == large
    await driver.write(step("one"), extras=Extras(blobs=(b"small",)))
    append = driver.build(step("two"), extras=Extras(blobs=(b"never",)))
    await driver.release()
    async with bench.refuses(Fenced):
        await bench.store.journal.append(append)
    assert not await bench.store.blobs.has(hex_digest(b"never"))


async def a_letter_is_sent_with_the_event(bench: Bench) -> None:
    parent, child = await bench.drive_new(), await bench.drive_new()
    await parent.wait(WaitReason.CHILD)
    append = await child.complete(extras=Extras(letters=(_draft_child_mail(parent),)))
    [letter] = await bench.store.post.read(parent.job_id)
    assert (letter.kind, letter.operation_id, letter.body) == (
        MailKind.CHILD,
        "op-1",
        {"status": "completed"},
    )
    head = await bench.store.jobs.head(parent.job_id)
    assert (head.status, head.mail_seq) == (Status.PENDING, 1), "the letter woke whom it was for"
    async with bench.expect_unchanged():
        await bench.store.journal.append(append)


async def the_same_letter_twice_is_one_letter(bench: Bench) -> None:
    parent, child = await bench.drive_new(), await bench.drive_new()
    await child.write(
        step("one"), extras=Extras(letters=(_draft_child_mail(parent), _draft_child_mail(parent)))
    )
    await child.write(step("two"), extras=Extras(letters=(_draft_child_mail(parent),)))
    assert (await bench.store.jobs.head(parent.job_id)).mail_seq == 1


async def a_refused_append_sends_no_letter(bench: Bench) -> None:
    parent, child = await bench.drive_new(), await bench.drive_new()
    append = child.build(step("one"), extras=Extras(letters=(_draft_child_mail(parent),)))
    await child.release()
    async with bench.refuses(Fenced):
        await bench.store.journal.append(append)


async def a_letter_to_a_job_that_is_over_refuses_nothing(bench: Bench) -> None:
    parent, child = await bench.drive_new(), await bench.drive_new()
    await parent.complete()
    await child.complete(extras=Extras(letters=(_draft_child_mail(parent),)))
    assert await bench.store.post.read(parent.job_id) == []
    assert (await bench.store.jobs.head(child.job_id)).status is Status.COMPLETED


async def a_call_that_may_not_move_refuses_the_append(bench: Bench) -> None:
    driver = await bench.drive_new()
    row = msgspec.structs.replace(call_row(driver, "1/mail#1"), status=CallStatus.UNCERTAIN)
    other = await bench.submit()
    letter = MailDraft(job_id=other, kind=MailKind.SIGNAL, operation_id="op-1")
    extras = Extras(
        calls=(row,), timers=(Timer("1/sleep#1", 7),), children=(_draft_child(driver),), letters=(letter,)
    )
    async with bench.refuses(InvalidMove):
        await bench.store.journal.append(driver.build(step("one"), extras=extras))


async def a_turn_is_committed_with_the_event(bench: Bench) -> None:
    driver, claim = await _drive_with_input(bench)
    append = await driver.send(_build_turn(driver, claim))
    view = await bench.load()
    assert view.revision == 1
    assert [node.node_id for node in view.graph.nodes] == ["n1"]
    assert await bench.list_queued() == [], "its inputs are used up"
    async with bench.expect_unchanged():
        assert await bench.store.journal.append(append) == append.head, "one turn, however often it is sent"


async def a_lost_claim_refuses_the_events_of_its_turn(bench: Bench) -> None:
    driver, claim = await _drive_with_input(bench)
    await bench.store.inbox.abandon(claim)
    async with bench.refuses(ClaimLost):
        await bench.store.journal.append(_build_turn(driver, claim))
    await driver.write(step("the job is still its own"))


async def a_moved_head_refuses_the_events_of_its_turn(bench: Bench) -> None:
    driver, claim = await _drive_with_input(bench)
    append = _build_turn(driver, claim, expected_revision=0)
    await bench.store.sessions.commit(TurnCommit(session_id="root"))
    async with bench.refuses(HeadMoved):
        await bench.store.journal.append(append)


async def a_changed_turn_refuses_its_events(bench: Bench) -> None:
    driver, claim = await _drive_with_input(bench)
    other = TurnCommit(session_id="root", checkpoint=SessionCheckpoint(turn_index=9))
    await bench.store.sessions.commit(stamp_commit(other, "turn-1"))
    async with bench.refuses(TurnConflict):
        await bench.store.journal.append(_build_turn(driver, claim))


async def a_fenced_append_commits_no_turn(bench: Bench) -> None:
    driver, claim = await _drive_with_input(bench)
    append = _build_turn(driver, claim)
    await driver.release()
    async with bench.refuses(Fenced):
        await bench.store.journal.append(append)


async def a_refused_turn_in_a_batch_harms_no_neighbour(bench: Bench) -> None:
    driver, claim = await _drive_with_input(bench)
    await bench.store.inbox.abandon(claim)
    first, last = await bench.drive_new(), await bench.drive_new()
    appends = [first.build(step("one")), _build_turn(driver, claim), last.build(step("one"))]
    outcomes = await bench.store.journal.append_many(appends)
    assert (outcomes[0], outcomes[2]) == (appends[0].head, appends[2].head)
    assert isinstance(outcomes[1], ClaimLost)
    assert await bench.store.sessions.load("root") is None
    assert (await bench.store.jobs.head(driver.job_id)).head == driver.holder.head


def _draft_child(parent: Driver) -> JobDraft:
    return JobDraft(
        kind="child",
        input={"n": 1},
        job_id="job_child",
        parent_job_id=parent.job_id,
        parent_step_key="1/child#1",
    )


def _draft_child_mail(parent: Driver) -> MailDraft:
    return MailDraft(
        job_id=parent.job_id,
        kind=MailKind.CHILD,
        operation_id="op-1",
        name="1/child#1",
        body={"status": "completed"},
        sender="child",
    )


async def _drive_with_input(bench: Bench) -> tuple[Driver, Claim]:
    """A running job of a session, with a claim on the session's only batch."""
    await bench.store.inbox.enqueue(message("hello"))
    driver = await bench.drive_new(session_id="root")
    return driver, present(await bench.claim(), "a claim")


def _build_turn(driver: Driver, claim: Claim, expected_revision: int | None = None) -> Append:
    """The append that ends a turn with the claimed input."""
    turn = stamp_commit(TurnCommit(session_id="root", nodes=(node("n1"),)), "turn-1")
    turn = msgspec.structs.replace(turn, completes=(claim.completion(),), expected_revision=expected_revision)
    event = TurnCommitted("root", "turn-1", 1, claim.completion().batch_ids)
    return driver.build(event, extras=Extras(turn=turn))
