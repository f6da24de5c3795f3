"""The mailbox: messages are numbered, stored once, and wake jobs."""

from __future__ import annotations

from holdfast.errors import InvalidPayload, NotFound, TooLarge
from holdfast.model.limits import LETTER_BYTES_MAX, LETTER_DEPTH_MAX
from holdfast.model.mailbox import Mail, MailDraft, MailReceipt
from holdfast.model.states import MailKind, Status, WaitReason, wakes
from holdfast.model.time import MINUTE
from holdfast.testing.conformance.driver import step
from holdfast.testing.conformance.harness import Bench


async def letters_are_numbered_without_gaps(bench: Bench) -> None:
    first, second = await bench.submit(), await bench.submit()
    for number in (1, 2, 3):
        sent = await bench.store.post.send(_draft_mail(first, f"op-{number}"))
        assert sent == MailReceipt(number, accepted=True)
    assert (await bench.store.post.send(_draft_mail(second, "op-1"))).mail_seq == 1, "each job counts its own"
    letters = await bench.store.post.read(first)
    assert [letter.mail_seq for letter in letters] == [1, 2, 3]
    assert await bench.store.post.read(first, after=1) == letters[1:]
    assert await bench.store.post.read(first, after=3) == []
    assert (await bench.store.jobs.head(first)).mail_seq == 3


async def a_letter_comes_as_it_was_sent(bench: Bench) -> None:
    job_id = await bench.submit()
    draft = MailDraft(
        job_id=job_id, kind=MailKind.APPROVAL, operation_id="op-1", name="a", body={"yes": True}, sender="eve"
    )
    await bench.store.post.send(draft)
    expected = Mail(job_id, 1, MailKind.APPROVAL, "a", {"yes": True}, "eve", "op-1", bench.clock.wall_us())
    assert await bench.store.post.read(job_id) == [expected]


async def a_letter_that_fits_into_no_event_is_refused(bench: Bench) -> None:
    job_id = await bench.submit()
    deep: object = None
    for _ in range(LETTER_DEPTH_MAX):
        deep = [deep]
    large = "x" * (LETTER_BYTES_MAX - 2)
    for number, body in enumerate((deep, large), 1):
        assert await bench.store.post.send(_draft_signal(body, job_id, f"op-{number}")) == MailReceipt(
            number, accepted=True
        )
    assert [letter.body for letter in await bench.store.post.read(job_id)] == [deep, large]
    for kind, body in ((InvalidPayload, [deep]), (TooLarge, large + "x")):
        async with bench.refuses(kind):
            await bench.store.post.send(_draft_signal(body, job_id, "op-3"))
    assert (await bench.store.jobs.head(job_id)).mail_seq == 2


async def mail_does_not_touch_the_journal(bench: Bench) -> None:
    driver = await bench.drive_new()
    await bench.store.post.send(_draft_mail(driver.job_id, "op-1", MailKind.CANCEL))
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.status, head.mail_seq, head.head) == (Status.RUNNING, 1, driver.holder.head)
    await driver.write(step("the holder still knows its head"))


async def mail_wakes_a_waiting_job(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.wait(WaitReason.SIGNAL, wake_at=bench.clock.wall_us() + 1000 * MINUTE)
    bench.clock.advance(MINUTE)
    sent = await bench.store.post.send(_draft_mail(driver.job_id, "op-1"))
    assert sent == MailReceipt(1, accepted=True, woke=True)
    head = await bench.store.jobs.head(driver.job_id)
    assert (head.status, head.wait_reason, head.wake_at) == (Status.PENDING, None, None)
    assert head.ready_at == bench.clock.wall_us()
    again = await bench.drive(driver.grant.queue)
    assert (again.job_id, again.grant.mail_seq) == (driver.job_id, 1), "the grant says that there is mail"


async def each_reason_decides_what_wakes_it(bench: Bench) -> None:
    for reason in WaitReason:
        driver = await bench.drive_new()
        await driver.wait(reason)
        for kind in MailKind:
            sent = await bench.store.post.send(_draft_mail(driver.job_id, bench.fresh("op"), kind))
            head = await bench.store.jobs.head(driver.job_id)
            expected = wakes(reason, kind)
            assert sent.accepted
            assert sent.woke is expected, f"{kind} and a job that waits for {reason}"
            assert (head.status is Status.PENDING) is expected
            if expected:
                driver = await bench.drive(driver.grant.queue)
                await driver.wait(reason)


async def a_pending_job_is_not_woken_again(bench: Bench) -> None:
    later = bench.clock.wall_us() + MINUTE
    job_id = await bench.submit(ready_at=later)
    assert not (await bench.store.post.send(_draft_mail(job_id, "op-1"))).woke
    assert (await bench.store.jobs.head(job_id)).ready_at == later, "a letter does not make it ready"


async def the_same_operation_is_one_letter(bench: Bench) -> None:
    driver = await bench.drive_new()
    await bench.store.post.send(_draft_mail(driver.job_id, "op-1"))
    await bench.store.post.send(_draft_mail(driver.job_id, "op-2"))
    await driver.wait(WaitReason.SIGNAL)
    async with bench.expect_unchanged():
        again = await bench.store.post.send(_draft_mail(driver.job_id, "op-1", MailKind.CANCEL))
    assert again == MailReceipt(1, accepted=True, repeated=True), (
        "the first letter's place, and nobody is woken"
    )


async def a_job_that_is_over_accepts_nothing(bench: Bench) -> None:
    driver = await bench.drive_new()
    await bench.store.post.send(_draft_mail(driver.job_id, "op-1"))
    await driver.complete()
    async with bench.expect_unchanged():
        sent = await bench.store.post.send(_draft_mail(driver.job_id, "op-2"))
    assert sent == MailReceipt(1, accepted=False), "nobody will read it"


async def a_letter_accepted_before_the_end_stays_accepted(bench: Bench) -> None:
    driver = await bench.drive_new()
    await bench.store.post.send(_draft_mail(driver.job_id, "op-1"))
    await driver.complete()
    again = await bench.store.post.send(_draft_mail(driver.job_id, "op-1"))
    assert again == MailReceipt(1, accepted=True, repeated=True), "a repeat gets the first answer"


async def a_letter_to_an_unknown_job_is_not_found(bench: Bench) -> None:
    async with bench.refuses(NotFound):
        await bench.store.post.send(_draft_mail("job_unknown", "op-1"))


async def mail_survives_a_new_handle(bench: Bench) -> None:
    driver = await bench.drive_new()
    await driver.wait(WaitReason.SIGNAL)
    await bench.store.post.send(_draft_mail(driver.job_id, "op-1"))
    before = await bench.store.post.read(driver.job_id)
    await bench.reopen()
    assert await bench.store.post.read(driver.job_id) == before
    assert (await bench.store.post.send(_draft_mail(driver.job_id, "op-1"))).repeated


def _draft_signal(body: object, job_id: str, operation_id: str) -> MailDraft:
    return MailDraft(job_id=job_id, kind=MailKind.SIGNAL, operation_id=operation_id, body=body)


def _draft_mail(job_id: str, operation_id: str, kind: MailKind = MailKind.SIGNAL) -> MailDraft:
    return MailDraft(job_id=job_id, kind=kind, operation_id=operation_id, body={"operation": operation_id})
