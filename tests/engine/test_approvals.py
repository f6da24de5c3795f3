"""A person's leave: for exactly these arguments, used once, not for ever; no call before it and none after a no."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.engine.durable_call import CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.suspension import sleep, wait
from holdfast.errors import Denied
from holdfast.model.events import ApprovalDecided, ApprovalRequested, ToolCalled
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import DAY, HOUR, MINUTE
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)

TERMS = CallPolicy(approve=lambda args: args[1] > 50, approval_lifetime_us=DAY)


class Refunds:
    def __init__(self) -> None:
        self.paid: list[int] = []

    async def program(self, drive: Execution, given: Any) -> Any:
        async def pay(_key: str) -> Any:
            self.paid.append(given)
            return f"paid {given}"

        try:
            return await drive.call(DurableCall("refund", ["order-1", given], pay, TERMS))
        except Denied as error:
            return f"denied by {error.by or 'nobody'}"


async def asked_for(shop: Shop, refunds: Refunds, cents: int) -> tuple[str, list[ApprovalRequested]]:
    shop.programs["refund"] = refunds.program
    job_id = await shop.submit(refunds.program, cents)
    await shop.drive_all()
    return job_id, await questions(shop, job_id)


async def questions(shop: Shop, job_id: str) -> list[ApprovalRequested]:
    return [event for event in await shop.events(job_id) if isinstance(event, ApprovalRequested)]


async def test_a_small_refund_needs_no_leave(backend: Backend) -> None:
    async with opened(backend) as shop:
        refunds = Refunds()
        job_id, asked = await asked_for(shop, refunds, 50)
        assert (asked, refunds.paid) == ([], [50])
        assert (await shop.job(job_id)).output == "paid 50"


@pytest.mark.parametrize("decision", ["approved", "denied"])
async def test_a_large_refund_waits_for_a_yes_or_a_no(backend: Backend, decision: str) -> None:
    async with opened(backend) as shop:
        refunds = Refunds()
        job_id, (asked,) = await asked_for(shop, refunds, 51)
        head = await shop.store.jobs.head(job_id)
        assert (head.wait_reason, head.lease_token, refunds.paid) == (WaitReason.APPROVAL, "", [])
        assert asked.args == ["order-1", 51]
        answer = {"approval_id": asked.approval_id, "decision": decision, "why": "looked at it"}
        await shop.tell(job_id, MailKind.APPROVAL, answer)
        opposite = {"approved": "denied", "denied": "approved"}[decision]
        await shop.tell(job_id, MailKind.APPROVAL, {**answer, "decision": opposite})
        assert await shop.drive_all() == ["completed"]
        output = (await shop.job(job_id)).output
        decided = [event for event in await shop.events(job_id) if isinstance(event, ApprovalDecided)]
        assert [(one.decision, one.by) for one in decided] == [(decision, "ada")], "the first word counts"
        if decision == "denied":
            assert (output, refunds.paid) == ("denied by ada", [])
            return
        assert (output, refunds.paid) == ("paid 51", [51])
        (intent,) = [event for event in await shop.events(job_id) if isinstance(event, ToolCalled)]
        (row,) = await shop.store.ledger.list(job_id)
        assert intent.approval_id == row.approval_id == asked.approval_id
        assert intent.args_digest == asked.args_digest


async def test_a_yes_to_something_else_is_no_yes(backend: Backend) -> None:
    async with opened(backend) as shop:
        refunds = Refunds()
        job_id, (asked,) = await asked_for(shop, refunds, 51)
        for body in (
            {"approval_id": "apr_other", "decision": "approved"},
            {"approval_id": asked.approval_id, "decision": "certainly"},
            {"decision": "approved"},
            "approved",
        ):
            await shop.tell(job_id, MailKind.APPROVAL, body)
            assert await shop.drive_all() == ["waiting"]
        assert refunds.paid == []


async def test_leave_for_other_arguments_is_none(backend: Backend) -> None:
    """Goal: a yes is for what was asked. Method: the code changes its mind about the amount after the yes was given."""
    async with opened(backend) as shop:
        refunds = Refunds()
        job_id, (asked,) = await asked_for(shop, refunds, 51)
        await shop.tell(job_id, MailKind.APPROVAL, {"approval_id": asked.approval_id, "decision": "approved"})

        async def dearer(drive: Execution, _: Any) -> Any:
            return await refunds.program(drive, 5100)

        shop.programs["program"] = dearer
        assert await shop.drive_all() == ["waiting"]
        assert refunds.paid == []
        _, other = await questions(shop, job_id)
        assert (other.args, other.step_key) == (["order-1", 5100], asked.step_key)
        await shop.tell(job_id, MailKind.APPROVAL, {"approval_id": other.approval_id, "decision": "approved"})
        assert await shop.drive_all() == ["completed"]
        assert refunds.paid == [5100]


async def test_nobody_answers_in_time(backend: Backend) -> None:
    async with opened(backend) as shop:
        refunds = Refunds()
        job_id, (asked,) = await asked_for(shop, refunds, 51)
        backend.clock.advance(DAY)
        late = {"approval_id": asked.approval_id, "decision": "approved"}
        await shop.tell(job_id, MailKind.APPROVAL, late)
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output == "denied by nobody"
        assert refunds.paid == []


async def test_leave_that_was_not_used_in_time_is_void(backend: Backend) -> None:
    """Goal: an old yes pays nothing. Method: the yes is read in time, but its worker dies before the intent and nobody
    takes the job until the day is over: the question is put again."""
    async with opened(backend) as shop:
        refunds = Refunds()
        job_id, (asked,) = await asked_for(shop, refunds, 51)
        await shop.tell(job_id, MailKind.APPROVAL, {"approval_id": asked.approval_id, "decision": "approved"})
        backend.clock.advance(DAY)
        assert await shop.drive_all() == ["waiting"]
        again = await questions(shop, job_id)
        assert len(again) == 2
        assert again[1].approval_id != asked.approval_id
        await shop.tell(
            job_id, MailKind.APPROVAL, {"approval_id": again[1].approval_id, "decision": "approved"}
        )
        assert await shop.drive_all() == ["completed"]
        assert refunds.paid == [51]


async def test_leave_that_ran_out_beside_a_recovery_is_void(backend: Backend) -> None:
    """Goal: what counts is the instant of the intent. Method: the yes is read in time, but nothing new may be called
    until another call is settled, and that takes longer than the leave lasts."""
    async with opened(backend) as shop:
        refunds = Refunds()

        async def beside(drive: Execution, given: Any) -> Any:
            with drive.recovering("another call"):
                refund = asyncio.ensure_future(refunds.program(drive, given))
                await wait(drive, "any word")
                await shop.look(drive, "long", lambda: backend.clock.advance(DAY))
            return await refund

        job_id = await shop.submit(beside, 51)
        assert await shop.drive_all() == ["waiting"]
        (asked,) = await questions(shop, job_id)
        await shop.tell(job_id, MailKind.APPROVAL, {"approval_id": asked.approval_id, "decision": "approved"})
        await shop.tell(job_id, MailKind.SIGNAL, name="any word")
        assert await shop.drive_all() == ["waiting"]
        assert refunds.paid == []
        assert len(await questions(shop, job_id)) == 2


async def test_a_no_is_remembered(backend: Backend) -> None:
    """Goal: replay takes the same way. Method: after the no the job sleeps, so that the next run replays it."""
    async with opened(backend) as shop:
        refunds = Refunds()

        async def careful(drive: Execution, given: Any) -> Any:
            said = await refunds.program(drive, given)
            await sleep(drive, HOUR)
            return said

        job_id = await shop.submit(careful, 99)
        assert await shop.drive_all() == ["waiting"]
        (asked,) = await questions(shop, job_id)
        await shop.tell(job_id, MailKind.APPROVAL, {"approval_id": asked.approval_id, "decision": "denied"})
        assert await shop.drive_all() == ["waiting"]
        backend.clock.advance(HOUR + MINUTE)
        assert await shop.drive_all() == ["completed"]
        job = await shop.job(job_id)
        assert (job.status, job.output, refunds.paid) == (Status.COMPLETED, "denied by ada", [])
        assert len(await questions(shop, job_id)) == 1
