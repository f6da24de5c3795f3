"""What an outsider sees of a job: its state, its life, what it needs, and when it is over."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from holdfast.api.job_records import SeamKind, Span, SpanKind, Trace
from holdfast.engine.crash_points import Point
from holdfast.engine.durable_call import CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.job_results import wait_for_result
from holdfast.errors import InvalidPayload, JobHeld, KeyReused, NotOver
from holdfast.model.events import CallMoved, StepFinished
from holdfast.model.jobs import JobFilter
from holdfast.model.states import Status, WaitReason
from holdfast.model.time import HOUR, MINUTE, SECOND
from holdfast.testing.conformance.driver import Driver
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import CLIENTS, lives

pytestmark = pytest.mark.parametrize("backend", CLIENTS, indirect=True)


def span(trace: Trace, name: str) -> Span:
    (found,) = [one for one in trace.spans if name in (one.name, one.step_key)]
    return found


def notes(trace: Trace) -> list[str]:
    return [note.text for note in trace.notes]


# ── submit, get, list, events ─────────────────────────────────────────────────────────────────────


async def test_a_request_sent_twice_is_one_job(backend: Backend) -> None:
    async with lives(backend) as one:
        first = await one.client.submit("refund", {"order": 1}, request_key="ticket-81", priority=9)
        again = await one.client.submit("refund", {"order": 1}, request_key="ticket-81", priority=9)
        assert (first.created, again.created, again.job_id) == (True, False, first.job_id)
        with pytest.raises(KeyReused):
            await one.client.submit("refund", {"order": 2}, request_key="ticket-81", priority=9)
        by_id = await one.client.submit("refund", 1, job_id="my-job")
        assert not (await one.client.submit("refund", 1, job_id=by_id.job_id)).created
        with pytest.raises(InvalidPayload):
            await one.client.submit("refund", priority=11)
        assert len(await one.client.list()) == 2


async def test_a_job_before_anybody_took_it(backend: Backend) -> None:
    async with lives(backend) as one:
        submitted = await one.client.submit("refund", {"order": 1}, queue="slow")
        job = await one.client.get(submitted.job_id)
        assert (job.kind, job.queue, job.status, job.input) == (
            "refund",
            "slow",
            Status.PENDING,
            {"order": 1},
        )
        assert (job.started_at, job.ended_at, job.worker, job.claims, job.over) == (
            None,
            None,
            None,
            0,
            False,
        )
        assert job.created_at == one.clock.wall_us()


async def test_a_job_that_somebody_drives(backend: Backend) -> None:
    async with lives(backend) as one, one.running() as (job_id, _run):
        job = await one.client.get(job_id)
        assert (job.status, job.worker, job.claims, job.needs) == (Status.RUNNING, "ant", 1, ())


async def test_a_job_that_came_through(backend: Backend) -> None:
    """Killed once, slept once, finished."""
    async with lives(backend) as one:
        begun = one.clock.wall_us()
        job_id = await one.finished()
        job = await one.client.get(job_id)
        assert (job.status, job.worker, job.last_worker) == (Status.COMPLETED, None, "bee")
        assert (job.input, job.output) == ("A-1", {"sent": {"receipt": 1}, "then": "AFTER"})
        assert (job.claims, job.attempts, job.steps, job.calls) == (3, 0, 3, {"succeeded": 1})
        assert (job.created_at, job.started_at) == (begun, begun)
        assert job.ended_at is not None
        assert job.ended_at > begun + 90 * SECOND


async def test_jobs_are_listed_by_what_they_wait_for(backend: Backend) -> None:
    async with lives(backend) as one:
        uncertain = await one.uncertain()
        dead = await one.dead()
        by_reason = await one.client.list(JobFilter(wait_reason=WaitReason.RECONCILE))
        assert [job.job_id for job in by_reason] == [uncertain]
        first = await one.client.list(limit=1)
        second = await one.client.list(limit=1, cursor=first.next)
        assert {job.job_id for job in (*first, *second)} == {uncertain, dead}
        assert second.next is None


async def test_events_are_shown_as_they_lie(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.uncertain()
        sealed = await one.store.journal.read(job_id)
        events = await one.client.events(job_id)
        assert [event.seq for event in events] == list(range(1, len(sealed) + 1))
        assert events[-1].hash == sealed[-1].hash.hex()
        (intent,) = [event for event in events if event.type == "tool_called"]
        assert intent.body["args"] == {"order": "A-1", "found": "ORDER", "cents": 4200}
        assert await one.client.events(job_id, after=2, limit=2) == events[2:4]


async def test_the_result_comes_when_the_job_is_over(backend: Backend) -> None:
    """Wait first, finish afterwards; and give up on one that goes on."""
    async with lives(backend) as one:
        job_id = await one.killed(one.notify, "notify", Point.AFTER_SUCCESS)
        with pytest.raises(NotOver):
            await one.client.result(job_id, timeout_s=0)
        waiting = asyncio.create_task(one.client.result(job_id, timeout_s=30))
        assert (await one.go_on())[-1] == "completed"
        assert (await waiting).output == {"receipt": 1}


# ── what needs a person ───────────────────────────────────────────────────────────────────────────


async def test_everything_that_waits_for_a_person_is_in_one_list(backend: Backend) -> None:
    async with lives(backend) as one:
        await one.finished()
        asking = await one.asking()
        dead = await one.dead()
        uncertain = await one.uncertain()
        one.clock.advance(MINUTE)
        parked = await one.parked()
        await one.sleeping()
        needs = await one.client.waiting_for_person()
        assert [(need.job_id, need.reason) for need in needs] == [
            (asking, WaitReason.APPROVAL),
            (dead, WaitReason.DEAD_LETTER),
            (uncertain, WaitReason.RECONCILE),
            (parked, WaitReason.DRIFT),
        ]
        approval, letter, call, drift = needs
        assert (approval.approval_id, approval.step_key) == ("apr_1", "0/pay#1")
        error = letter.evidence[0]["error"]
        assert (error["type"], error["message"]) == ("LookupError", "no such page")
        assert error["traceback"][-1]["code"].startswith("raise LookupError")
        assert (call.tool, call.effect, call.step_key) == ("pay", "unsafe", "0/pay#1")
        assert call.args == {"order": "A-1", "found": "ORDER", "cents": 4200}
        assert call.key == one.plain.log[0]["key"], "what the receiver saw"
        assert "unsafe to repeat" in call.evidence
        assert (
            call.commands[0]
            == f"holdfast reconcile {uncertain} '0/pay#1' --happened --result @file --why '…'"
        )
        assert drift.evidence["attempted"]["name"] == "pay_out"
        assert [need.job_id for need in await one.client.dead_letters()] == [dead]


async def test_a_stalled_job_waits_for_a_person(backend: Backend) -> None:
    """Goal: whoever looks sees where the code stands and what to type. Method: a future that never comes."""
    async with lives(backend) as one:
        job_id = await one.stalled()
        job = await one.client.get(job_id)
        assert (job.status, job.wait_reason) == (Status.WAITING, WaitReason.STALLED)
        (need,) = await one.client.waiting_for_person()
        assert job.needs == (need,)
        assert (need.reason, need.job_status, need.person) == (WaitReason.STALLED, Status.WAITING, True)
        assert need.what == (
            "No progress: its code waits for something that is not durable, and that has not come"
        )
        (task,) = need.evidence["tasks"]
        assert "tests/api/client/job_states.py:" in task["at"]
        assert task["at"].endswith(" in forgetful")
        assert need.commands == (f"holdfast resume {job_id} --why '…'", f"holdfast cancel {job_id}")
        with pytest.raises(JobHeld, match=r"makes no progress.*job_states\.py:\d+ in forgetful"):
            await wait_for_result(one.store, job_id)


async def test_a_stalled_job_goes_on_or_ends_by_a_persons_word(backend: Backend) -> None:
    """Goal: resume runs it again, cancel ends it, nothing else moves it. Method: both, and a stray signal."""
    async with lives(backend) as one:
        resumed, cancelled = await one.stalled(), await one.stalled()
        await one.client.signal(resumed, "stray")
        assert await one.go_on(rounds=1) == [], "it is held"
        await one.client.resume(resumed, why="the code is repaired", by="ada")
        one.programs["forgetful"] = one.refund
        assert await one.go_on(rounds=2) == ["pending", "completed"], "heard, then driven"
        assert one.done["order"] == 2, "one look for each job: a resumed job uses what is recorded"
        assert (await one.client.cancel(cancelled, why="no use")).at_once
        assert (await one.client.get(cancelled)).status is Status.CANCELLED
        assert await one.client.waiting_for_person() == ()
        assert (await one.client.verify(resumed)).violations == ()


@pytest.mark.parametrize(
    "kind, reason, heard",
    [
        ("uncertain", WaitReason.RECONCILE, "tool_reconciled"),
        ("approval", WaitReason.APPROVAL, "approval_decided"),
        ("question", WaitReason.APPROVAL, "signal_taken"),
    ],
)
async def test_a_running_job_that_needs_a_person_is_in_the_list(
    backend: Backend, kind: str, reason: WaitReason, heard: str
) -> None:
    """Goal: nothing is left undecided because other work of the job goes on. Method: a long look beside it."""
    async with lives(backend) as one, one.needing(kind) as (job_id, run):
        job = await one.client.get(job_id)
        (need,) = await one.client.waiting_for_person()
        assert (job.status, job.needs) == (Status.RUNNING, (need,))
        assert (need.job_id, need.reason, need.job_status) == (job_id, reason, Status.RUNNING)
        if kind == "uncertain":
            await one.client.reconcile(job_id, need.step_key or "", "skip", why="seen", by="ada")
        elif kind == "approval":
            await one.client.deny(need.approval_id or "", why="no", by="ada")
        else:
            await one.client.answer(job_id, "the last one", by="ada")
        assert await one.client.waiting_for_person() == (), "as soon as the answer is durable"
        run.poke()
        await one.until_recorded(job_id, heard)
        assert await one.client.waiting_for_person() == ()


async def test_an_approval_that_the_code_gave_up_is_not_listed(backend: Backend) -> None:
    """Goal: a person is asked only for what the code waits for. Method: cancel the call that asks."""
    async with lives(backend) as one:

        async def impatient(drive: Execution, _: Any) -> Any:
            asked = DurableCall("pay", [], _nothing, CallPolicy(approve=lambda _args: True))
            asking = asyncio.create_task(drive.call(asked))
            await one.look(drive, "order")
            asking.cancel()
            await asyncio.wait([asking])
            await one.slow(drive, None)

        job_id = await one.submit(impatient)
        run = await one.claim(worker="ant")
        going = asyncio.create_task(run.go())
        try:
            await one.until_recorded(job_id, "call_cancelled")
            assert await one.store.jobs.list_needing_person() == [job_id], "it has asked"
            assert await one.client.waiting_for_person() == (), "and waits for no answer"
        finally:
            going.cancel()
            await asyncio.wait([going])


async def _nothing(_key: str) -> None:
    pass


async def test_what_does_not_need_a_person_is_said_too(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.sleeping()
        (need,) = (await one.client.get(job_id)).needs
        assert (need.reason, need.person, need.due_at) == (
            WaitReason.TIMER,
            False,
            one.clock.wall_us() + HOUR,
        )


# ── trace ─────────────────────────────────────────────────────────────────────────────────────────


async def test_the_life_of_a_job_that_was_taken_over(backend: Backend) -> None:
    """Reads side by side in a scope, an idempotent mail cut off and sent again, a sleep: spans, seams, sentences."""
    async with lives(backend) as one:
        begun = one.clock.wall_us()
        trace = await one.client.trace(await one.finished())
        assert (trace.over, trace.start_at, trace.status) == (True, begun, "completed")
        orders, prices, after = [one for one in trace.spans if one.kind is SpanKind.READ]
        assert orders.scope[0] == prices.scope[0] == "research#1"
        assert orders.scope != prices.scope, "each branch has its own"
        assert (after.scope, after.outcome, after.start_known) == ((), "succeeded", False)
        mail = span(trace, "send_report")
        assert (mail.effect, mail.attempt, mail.outcome, mail.generation) == ("idempotent", 2, "succeeded", 0)
        assert mail.sent_at == (begun, begun + 31 * SECOND + SECOND // 4)
        assert (mail.start_at, mail.end_at) == (begun, mail.sent_at[1] + SECOND // 4)
        assert (mail.worker, mail.key) == ("bee", one.keyed.log[0]["key"])
        nap = span(trace, "0/sleep#1")
        assert (nap.kind, nap.outcome, (nap.end_at or 0) - nap.start_at >= 90 * SECOND) == (
            SpanKind.SLEEP,
            "over",
            True,
        )
        kinds = [seam.kind for seam in trace.seams]
        assert kinds == [
            SeamKind.CREATED,
            SeamKind.CLAIMED,
            SeamKind.TAKEOVER,
            SeamKind.WAITING,
            SeamKind.CLAIMED,
            SeamKind.ENDED,
        ]
        assert trace.seams[3].until == trace.seams[4].at, "the wait ends with the next claim"
        assert notes(trace) == [
            ("The lease of ant had expired; 2 recorded outcomes were replayed, not called again."),
            "send_report was sent again under the same key: it is idempotent, and its outcome was not recorded.",
        ]
        assert mail.notes == (notes(trace)[1],)


@pytest.mark.parametrize(
    "at, said",
    [
        (
            Point.AFTER_SUCCESS,
            "notify was not sent again: after the quiet period its receiver confirmed that it had happened.",
        ),
        (
            Point.AFTER_INTENT,
            "notify was sent again under the same key: its receiver confirmed that it had not happened.",
        ),
    ],
)
async def test_the_trace_says_what_the_probe_found(backend: Backend, at: Point, said: str) -> None:
    async with lives(backend) as one:
        job_id = await one.killed(one.notify, "notify", at)
        await one.go_on()
        trace = await one.client.trace(job_id)
        assert (trace.status, notes(trace)[-1]) == ("completed", said)
        assert len(one.probed.log) == 1


async def test_the_trace_of_a_call_that_a_person_had_made_again(backend: Backend) -> None:
    """Held, spoken about, made again under a new key: two spans of one step, and who said what."""
    async with lives(backend) as one:
        job_id = await one.uncertain(Point.AFTER_INTENT)
        one.clock.advance(2 * MINUTE)
        await one.client.reconcile(job_id, "0/pay#1", "not_happened", why="no such payment", by="ada")
        await one.go_on()
        trace = await one.client.trace(job_id)
        first, second = [one for one in trace.spans if one.kind is SpanKind.EFFECT]
        assert [(one.generation, one.outcome) for one in (first, second)] == [
            (0, "not_happened"),
            (1, "succeeded"),
        ]
        assert first.key != second.key
        assert notes(trace)[1:] == [
            (
                "Outcome unknown: pay. Held for a person: cut off after the call had begun; "
                "it is unsafe to repeat and cannot be looked up."
            ),
            "ada decided about pay: it did not happen (no such payment).",
            "pay was called again under a new idempotency key: ada decided that it did not happen.",
        ]


async def test_the_trace_of_a_dead_letter_and_of_a_parked_job(backend: Backend) -> None:
    async with lives(backend) as one:
        dead = await one.client.trace(await one.dead())
        assert notes(dead)[0] == ("The next attempt makes these calls again: 0/look#1.")
        assert notes(dead)[-1] == "The job is kept with its journal until a person decides."
        assert dead.seams[-1].text == "dead letter: Failed after 3 attempts: LookupError: no such page"
        assert dead.seams[-1].error["traceback"]
        assert [seam.kind for seam in dead.seams].count(SeamKind.REQUEUED) == 2
        parked = await one.client.trace(await one.parked())
        assert "Parked before any call was made" in notes(parked)[-1]
        assert not parked.over


async def test_the_trace_of_a_stalled_job(backend: Backend) -> None:
    async with lives(backend) as one:
        trace = await one.client.trace(await one.stalled())
        seam = trace.seams[-1]
        assert seam.kind is SeamKind.STALLED
        assert seam.text == (
            "stalled: its code waits for something that is not durable, and that has not come"
        )
        assert re.fullmatch(r".*forgetful waits at .*job_states\.py:\d+ in forgetful\.", notes(trace)[-1])


async def test_the_trace_of_a_call_that_adopted_a_record(backend: Backend) -> None:
    """Goal: a person sees that renamed code used the record. Method: a journal in which a call has moved."""
    async with lives(backend) as one:
        job_id = await one.submit(one.refund)
        run = await one.claim(worker="ant")
        read, moved = StepFinished("0/look#1", "d"), CallMoved("0/again#1/look#1", "0/look#1", "d")
        await Driver(one.store, one.clock, run.grant).write(read, moved)
        trace = await one.client.trace(job_id)
        text = "Adopted the record of 0/look#1 for 0/again#1/look#1 (renamed or reordered code)."
        assert notes(trace)[-1] == text
        assert span(trace, "0/look#1").notes == (text,)


async def test_every_journal_can_be_traced(backend: Backend) -> None:
    """A damaged journal has no fold, but what can be read of it is shown; verify says what is wrong."""
    async with lives(backend) as one:
        job_id = await one.uncertain()
        checked = await one.client.verify(job_id)
        assert (checked.violations, checked.events) == ((), len(await one.events(job_id)))
        read = one.store.journal.read

        async def torn(job_id: str, **more: Any) -> Any:
            return [event for event in await read(job_id, **more) if event.seq != 3]

        one.store.journal.read = torn  # type: ignore[method-assign]
        try:
            assert "the hash chain breaks at event 4" in (await one.client.verify(job_id)).violations[0]
            assert (await one.client.trace(job_id)).spans
        finally:
            one.store.journal.read = read  # type: ignore[method-assign]
