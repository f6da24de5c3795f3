"""Queue of a session: one job has the turn, the others wait behind it."""

from __future__ import annotations

from holdfast.model.append import Move
from holdfast.model.events import JobCancellation, JobDeadLettered, JobFailure, JobRequeued
from holdfast.model.mailbox import MailDraft
from holdfast.model.page import Page
from holdfast.model.session import SessionRecord, TurnCommit
from holdfast.model.states import MailKind, Slot, Status, WaitReason
from holdfast.model.time import HOUR, SECOND
from holdfast.store.ports.journal import Ruling
from holdfast.testing.conformance.harness import Bench


async def the_first_job_of_a_session_has_the_turn(bench: Bench) -> None:
    assert (await bench.store.jobs.head(await bench.submit())).session_slot is None, "no session, no line"
    front = await bench.submit(session_id="root")
    back = await bench.submit(session_id="root")
    assert await _read_place(bench, front) == (Slot.LIVE, Status.PENDING, None)
    assert await _read_place(bench, back) == (Slot.BEHIND, Status.WAITING, WaitReason.JOINED)
    assert await bench.claimable(queues=("default",), kinds=("work",), limit=100) != [], (
        "the front can be claimed"
    )


async def nobody_claims_a_job_that_stands_behind(bench: Bench) -> None:
    front, back = await bench.submit(session_id="root"), await bench.submit(session_id="root", priority=10)
    assert await bench.claimable() == [front]
    bench.clock.advance(HOUR)
    assert await bench.claimable(worker="later") == [front], (
        "the front's lease ran out; the back is no way around"
    )
    assert await _read_place(bench, back) == (Slot.BEHIND, Status.WAITING, WaitReason.JOINED)


async def mail_does_not_let_a_job_jump_the_line(bench: Bench) -> None:
    await bench.submit(session_id="root")
    back = await bench.submit(session_id="root")
    for kind in (MailKind.SIGNAL, MailKind.CANCEL, MailKind.RESUME):
        sent = await bench.store.post.send(MailDraft(job_id=back, kind=kind, operation_id=bench.fresh("op")))
        assert sent.accepted, "it will read the letter when its turn comes"
        assert not sent.woke
    assert await _read_place(bench, back) == (Slot.BEHIND, Status.WAITING, WaitReason.JOINED)


async def the_end_of_a_turn_frees_the_next_job(bench: Bench) -> None:
    for end in (Status.COMPLETED, Status.FAILED, Status.CANCELLED):
        session_id = bench.fresh("session")
        driver = await bench.drive_new(session_id=session_id)
        now = bench.clock.wall_us()
        third = await bench.submit(session_id=session_id, ready_at=now - 1 * SECOND)
        second = await bench.submit(session_id=session_id, ready_at=now - 2 * SECOND)
        if end is Status.COMPLETED:
            await driver.complete()
        else:
            event = JobFailure() if end is Status.FAILED else JobCancellation()
            await driver.write(event, move=Move(status=end))
        assert await _read_place(bench, driver.job_id) == (None, end, None), "over is out of the line"
        assert await _read_place(bench, second) == (Slot.LIVE, Status.PENDING, None), (
            "the one that was ready first"
        )
        assert await _read_place(bench, third) == (Slot.BEHIND, Status.WAITING, WaitReason.JOINED)


async def the_end_of_a_turn_frees_nobody_in_another_session(bench: Bench) -> None:
    await bench.submit(session_id="other")
    waiting = await bench.submit(session_id="other", ready_at=1)
    driver = await bench.drive_new(session_id="root")
    back = await bench.submit(session_id="root")
    await driver.complete()
    assert (await _read_place(bench, back))[0] is Slot.LIVE
    assert await _read_place(bench, waiting) == (Slot.BEHIND, Status.WAITING, WaitReason.JOINED)


async def jobs_that_were_ready_together_go_by_id(bench: Bench) -> None:
    driver = await bench.drive_new(session_id="root")
    now = bench.clock.wall_us()
    second = await bench.submit(session_id="root", ready_at=now)
    third = await bench.submit(session_id="root", ready_at=now)
    await driver.complete()
    assert (await _read_place(bench, second))[0] is Slot.LIVE
    assert (await _read_place(bench, third))[0] is Slot.BEHIND


async def a_waiting_job_keeps_the_turn(bench: Bench) -> None:
    driver = await bench.drive_new(session_id="root")
    back = await bench.submit(session_id="root")
    await driver.wait(WaitReason.SIGNAL)
    assert await _read_place(bench, driver.job_id) == (Slot.LIVE, Status.WAITING, WaitReason.SIGNAL)
    assert (await _read_place(bench, back))[0] is Slot.BEHIND


async def a_released_job_keeps_the_turn(bench: Bench) -> None:
    driver = await bench.drive_new(session_id="root")
    back = await bench.submit(session_id="root")
    await driver.release()
    assert await _read_place(bench, driver.job_id) == (Slot.LIVE, Status.PENDING, None)
    assert (await _read_place(bench, back))[0] is Slot.BEHIND


async def after_the_last_job_the_next_one_has_the_turn_again(bench: Bench) -> None:
    driver = await bench.drive_new(session_id="root")
    await driver.complete()
    assert await _read_place(bench, await bench.submit(session_id="root")) == (
        Slot.LIVE,
        Status.PENDING,
        None,
    )


async def a_short_hold_that_ends_the_turn_frees_the_next_job(bench: Bench) -> None:
    front, back = await bench.submit(session_id="root"), await bench.submit(session_id="root")
    await bench.store.journal.hold(front, lambda _head: CANCEL)
    assert (await _read_place(bench, front))[0] is None
    assert await _read_place(bench, back) == (Slot.LIVE, Status.PENDING, None)


async def a_job_may_leave_the_line_from_behind(bench: Bench) -> None:
    front = await bench.submit(session_id="root")
    middle = await bench.submit(session_id="root")
    back = await bench.submit(session_id="root")
    await bench.store.journal.hold(middle, lambda _head: CANCEL)
    assert await _read_place(bench, middle) == (None, Status.CANCELLED, None)
    assert await _read_place(bench, front) == (Slot.LIVE, Status.PENDING, None), "the turn has not moved"
    assert (await _read_place(bench, back))[0] is Slot.BEHIND


async def a_held_job_gets_the_turn_and_stays_held(bench: Bench) -> None:
    front, back = await bench.submit(session_id="root"), await bench.submit(session_id="root")
    bury = Ruling((JobDeadLettered(),), Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER))
    await bench.store.journal.hold(back, lambda _head: bury)
    await bench.store.journal.hold(front, lambda _head: CANCEL)
    assert await _read_place(bench, back) == (Slot.LIVE, Status.WAITING, WaitReason.DEAD_LETTER), (
        "a person frees it"
    )


async def a_requeued_job_stays_behind(bench: Bench) -> None:
    front, back = await bench.submit(session_id="root"), await bench.submit(session_id="root")
    requeue = Ruling((JobRequeued(),), Move(status=Status.PENDING))
    await bench.store.journal.hold(back, lambda _head: requeue)
    assert await bench.claimable() == [front], "one job of a session is claimable, whatever a hold decides"


async def sessions_of_two_namespaces_have_two_lines(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    here = await bench.submit(session_id="root")
    there = await bench.submit(session_id="root", namespace="elsewhere")
    assert (await _read_place(bench, here))[0] is (await _read_place(bench, there))[0] is Slot.LIVE


CANCEL = Ruling((JobCancellation(),), Move(status=Status.CANCELLED))


async def _read_place(bench: Bench, job_id: str) -> tuple[Slot | None, Status, WaitReason | None]:
    head = await bench.store.jobs.head(job_id)
    return head.session_slot, head.status, head.wait_reason


async def sessions_are_listed_with_their_jobs(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    await bench.store.sessions.commit(TurnCommit(session_id="Alpha"))
    await bench.submit(session_id="beta")
    bench.clock.advance(1_000)
    await bench.submit(session_id="beta")
    await bench.submit(session_id="there", namespace="elsewhere")
    beta = SessionRecord("beta", 0, 2, bench.clock.wall_us())
    alpha = SessionRecord("Alpha", 1, 0, None)
    page = await bench.store.sessions.list(limit=1)
    assert page.items == (beta,)
    assert (await bench.store.sessions.list(limit=1, cursor=page.next)).items == (alpha,)
    assert (await bench.store.sessions.list(limit=2)) == Page((beta, alpha), None)
    assert (await bench.store.sessions.list(text="ALP")).items == (alpha,)
    assert (await bench.store.sessions.list(text="%")).items == ()
    (there,) = await bench.store.sessions.list(namespace="elsewhere")
    assert there.session_id == "there"
