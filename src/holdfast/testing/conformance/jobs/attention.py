"""Jobs that may need a person: those that wait for one, and running ones with an undecided call or request."""

from __future__ import annotations

from holdfast.model.append import Extras, Move
from holdfast.model.crash_suspects import SUSPECT_AT, UNCLAIMED_US
from holdfast.model.events import ApprovalDecided, ApprovalRequested, JobStalled, QuestionAsked
from holdfast.model.ledger import CallRow
from holdfast.model.mailbox import MailDraft
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import FOR_A_PERSON, MailKind, Status, WaitReason
from holdfast.model.time import HOUR, SECOND
from holdfast.store.ports.jobs import Jobs
from holdfast.testing.conformance.drafts import call_row, intent_of, make_settled_row, outcome_of
from holdfast.testing.conformance.driver import Driver, step
from holdfast.testing.conformance.harness import Bench


async def jobs_that_wait_for_a_person_need_one(bench: Bench) -> None:
    waiting = {}
    for reason in WaitReason:
        if reason is not WaitReason.JOINED:
            driver = await bench.drive_new()
            await driver.wait(reason)
            waiting[driver.job_id] = reason
    expected = sorted(job_id for job_id, reason in waiting.items() if reason in FOR_A_PERSON)
    assert await bench.store.jobs.list_needing_person() == expected


async def a_running_job_with_an_uncertain_call_needs_a_person(bench: Bench) -> None:
    driver, calm = await bench.drive_new(), await bench.drive_new()
    await calm.write(step("one"))
    row = await _write_call(driver, CallStatus.UNCERTAIN)
    assert await bench.store.jobs.list_needing_person() == [driver.job_id]
    await driver.release()
    assert await bench.store.jobs.list_needing_person() == [driver.job_id], "whoever drives it"
    driver = await bench.drive(driver.grant.queue)
    settled = make_settled_row(driver, row, CallStatus.SKIPPED)
    await driver.write(step("two"), extras=Extras(calls=(settled,)))
    assert await bench.store.jobs.list_needing_person() == []


async def a_call_that_is_only_under_way_needs_nobody(bench: Bench) -> None:
    driver = await bench.drive_new()
    await _write_call(driver, None)
    await _write_call(driver, CallStatus.SUCCEEDED, "1/b#1")
    assert await bench.store.jobs.list_needing_person() == []


async def a_job_that_is_over_needs_nobody(bench: Bench) -> None:
    driver = await bench.drive_new()
    await _write_call(driver, CallStatus.UNCERTAIN)
    await driver.write(_make_approval("one"), _make_question("one"))
    await driver.complete()
    assert await bench.store.jobs.list_needing_person() == []


async def a_running_job_with_an_open_approval_needs_a_person(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.write(_make_approval("one"), _make_approval("two"))
    await driver.write(ApprovalDecided("one", "approved", by="ada"))
    assert await bench.store.jobs.list_needing_person() == [driver.job_id], "the other one is open"
    await driver.write(ApprovalDecided("two", "denied", by="ada"))
    assert await bench.store.jobs.list_needing_person() == []


async def a_running_job_that_asked_a_question_may_need_a_person(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.write(_make_question("one"))
    assert await bench.store.jobs.list_needing_person() == [driver.job_id]
    await driver.wait(WaitReason.TIMER)
    assert await bench.store.jobs.list_needing_person() == [], "people come first among what a job waits for"


async def a_suspect_that_no_worker_takes_needs_a_person(bench: Bench) -> None:
    """A minute after it became claimable, and not while a worker holds it."""
    queue = bench.fresh("queue")
    suspect = await bench.submit(queue=queue)
    for deaths in range(1, SUSPECT_AT + 1):
        driver = await bench.drive(queue, f"dies {deaths}", ttl_us=SECOND)
        bench.clock.advance(2 * UNCLAIMED_US)
    driver = await bench.drive(queue, "gives it back")
    assert driver.grant.takeovers == SUSPECT_AT
    assert await _list_suspects(bench) == (0, []), "it runs"
    await driver.release(
        ready_at=bench.clock.wall_us() - HOUR
    )  # like a sweep: the job keeps its place in the queue
    assert await _list_suspects(bench) == (0, [])
    bench.clock.advance(UNCLAIMED_US - 1)
    assert await _list_suspects(bench) == (0, []), "perhaps a worker takes it yet"
    bench.clock.advance(1)
    assert await _list_suspects(bench) == (1, [suspect])
    driver = await bench.drive(queue, "waits")
    await driver.wait(WaitReason.TIMER, wake_at=bench.clock.wall_us() + HOUR)
    bench.clock.advance(HOUR + UNCLAIMED_US - 1)
    assert await _list_suspects(bench) == (0, [])
    bench.clock.advance(1)
    assert await _list_suspects(bench) == (1, [suspect]), "it is due, and nobody wakes it"
    driver = await bench.drive(queue, "makes progress")
    await driver.write(step("one"), progress=True)
    await driver.release()
    bench.clock.advance(2 * UNCLAIMED_US)
    assert await _list_suspects(bench) == (0, []), "it is no suspect any more"


async def _list_suspects(bench: Bench) -> tuple[int, list[str]]:
    vitals = await bench.store.vitals.read()
    return vitals.suspects, await bench.store.jobs.list_needing_person()


async def jobs_that_need_a_person_are_listed_page_by_page(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    here = sorted([await _ask_question(bench) for _ in range(3)])
    there = await _ask_question(bench, namespace="elsewhere")
    jobs: Jobs = bench.store.jobs
    assert await jobs.list_needing_person() == sorted([*here, there])
    assert await jobs.list_needing_person("elsewhere") == [there]
    first = await jobs.list_needing_person("default", limit=2)
    assert first == here[:2]
    assert await jobs.list_needing_person("default", limit=2, after=first[-1]) == here[2:]


async def a_stalled_job_is_held_for_a_person(bench: Bench) -> None:
    driver = await bench.drive_new()
    queue = driver.grant.queue
    move = Move(status=Status.WAITING, reason=WaitReason.STALLED)
    await driver.write(JobStalled(report={"why": "no progress", "tasks": []}), move=move)
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.status, head.wait_reason, head.wake_at) == (Status.WAITING, WaitReason.STALLED, None)
    for kind in (MailKind.SIGNAL, MailKind.APPROVAL, MailKind.BUDGET):
        sent = await bench.store.post.send(_draft_mail(bench, driver.job_id, kind))
        assert (sent.accepted, sent.woke) == (True, False), "no stray letter starts it again"
    assert await bench.claimable(queues=(queue,)) == []
    sent = await bench.store.post.send(_draft_mail(bench, driver.job_id, MailKind.RESUME))
    assert sent.woke
    assert await bench.claimable(queues=(queue,)) == [driver.job_id]


async def _write_call(driver: Driver, status: CallStatus | None, step_key: str = "1/a#1") -> CallRow:
    row = call_row(driver, step_key)
    await driver.write(intent_of(row), extras=Extras(calls=(row,)))
    if status is not None:
        row = make_settled_row(driver, row, status)
        await driver.write(outcome_of(row), extras=Extras(calls=(row,)))
    return row


async def _ask_question(bench: Bench, *, namespace: str = "default") -> str:
    queue = bench.fresh("queue")
    await bench.submit(queue=queue, namespace=namespace)
    driver = await bench.drive(queue)
    await driver.write(_make_question("one"))
    return driver.job_id


def _make_approval(name: str) -> ApprovalRequested:
    return ApprovalRequested(name, f"1/{name}#1", "digest", tool=name)


def _make_question(name: str) -> QuestionAsked:
    return QuestionAsked(f"ask_{name}", f"1/ask#1/{name}#1", "Which one?")


def _draft_mail(bench: Bench, job_id: str, kind: MailKind) -> MailDraft:
    return MailDraft(job_id=job_id, kind=kind, operation_id=bench.fresh("op"))
