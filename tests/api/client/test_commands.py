"""What a person says to a job: done at once or left as a letter, once per operation id, refused with a remedy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest

from holdfast.api.job_records import Accepted
from holdfast.engine.crash_points import Point
from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidMove,
    InvalidName,
    InvalidPayload,
    KeyReused,
    NotFound,
)
from holdfast.model.events import CancelRequested, JobCancellation, JobRequeued
from holdfast.model.jobs import JobDraft
from holdfast.model.mailbox import MailDraft
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import MINUTE, SECOND
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import CLIENTS, Lives, lives

pytestmark = pytest.mark.parametrize("backend", CLIENTS, indirect=True)


@asynccontextmanager
async def refuses(one: Lives, job_id: str, kind: type[HoldfastError]) -> AsyncIterator[list[HoldfastError]]:
    """The block raises this error, and the job's head, journal and mail are as before."""

    async def picture() -> list[Any]:
        return [
            await one.store.jobs.head(job_id),
            await one.store.journal.read(job_id),
            await one.store.post.read(job_id),
        ]

    before = await picture()
    caught: list[HoldfastError] = []
    with pytest.raises(kind) as error:
        yield caught
    caught.append(error.value)
    assert await picture() == before


# ── cancel ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", ["pending", "sleeping", "uncertain", "dead", "parked"])
async def test_a_job_nobody_drives_is_cancelled_without_a_worker(backend: Backend, state: str) -> None:
    async with lives(backend) as one:
        make = {
            "pending": lambda: one.submit(one.refund),
            "sleeping": one.sleeping,
            "uncertain": one.uncertain,
            "dead": one.dead,
            "parked": one.parked,
        }[state]
        job_id = await make()
        said = await one.client.cancel(job_id, why="a mistake", by="ada", operation_id="op-1")
        assert said == Accepted(job_id=job_id, operation_id="op-1", at_once=True)
        job = await one.client.get(job_id)
        assert (job.status, job.over, job.needs) == (Status.CANCELLED, True, ())
        assert (await one.events(job_id))[-2:] == [
            CancelRequested(by="ada", why="a mistake", operation_id="op-1"),
            JobCancellation("a mistake"),
        ]
        assert (await one.client.verify(job_id)).violations == ()
        assert await one.store.post.read(job_id) == []


async def test_a_job_that_is_driven_gets_a_letter(backend: Backend) -> None:
    async with lives(backend) as one, one.running() as (job_id, run):
        said = await one.client.cancel(
            job_id, why="changed\nmy mind " + "x" * 300, by="ada", operation_id="op-1"
        )
        assert not said.at_once
        (letter,) = await one.store.post.read(job_id)
        assert (letter.kind, letter.sender, letter.name[:16]) == (MailKind.CANCEL, "ada", "changed my mind ")
        run.poke()
        job = await one.client.result(job_id, timeout_s=10)
        assert job.status is Status.CANCELLED
        again = await one.client.cancel(
            job_id, why="changed\nmy mind " + "x" * 300, by="ada", operation_id="op-1"
        )
        assert again.repeated


async def test_a_job_whose_worker_died_is_cancelled_at_once(backend: Backend) -> None:
    """Its lease is over, so nobody drives it, whatever its status says."""
    async with lives(backend) as one:
        job_id = await one.killed(one.refund, "pay", Point.AFTER_INTENT)
        assert (await one.client.get(job_id)).status is Status.RUNNING
        assert (await one.client.cancel(job_id)).at_once
        assert (await one.client.get(job_id)).status is Status.CANCELLED


async def test_a_child_and_a_parent_are_left_to_whoever_drives_them(backend: Backend) -> None:
    """A parent waits for its child's end: it must be told, and a short hold does not know how."""
    async with lives(backend) as one:
        parent = await one.sleeping()
        child = await one.store.jobs.submit(
            JobDraft(kind="refund", job_id="child", parent_job_id=parent, parent_step_key="0/spawn#1")
        )
        assert not (await one.client.cancel(child.job_id)).at_once
        assert (await one.client.get(child.job_id)).status is Status.PENDING


async def test_a_finished_job_cannot_be_cancelled(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.finished()
        async with refuses(one, job_id, InvalidMove) as caught:
            await one.client.cancel(job_id, by="ada")
        assert str(caught[0]) == f"cannot cancel job {job_id}: it is completed"


async def test_a_cancel_sent_twice_is_one(backend: Backend) -> None:
    """One after the other, and both at the same time; another cancel under the same id is refused."""
    async with lives(backend) as one:
        job_id = await one.sleeping()
        cancel = partial(one.client.cancel, job_id, by="ada", operation_id="op-1")
        both = await asyncio.gather(cancel(), cancel())
        third = await cancel()
        assert [said.repeated for said in both].count(False) == 1
        assert third.repeated
        events = await one.events(job_id)
        assert len([event for event in events if isinstance(event, CancelRequested)]) == 1
        async with refuses(one, job_id, KeyReused):
            await cancel(why="another reason")


# ── reconcile ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "decision, output, sent",
    [("happened", {"receipt": 7}, 1), ("skip", {"receipt": 7}, 1), ("not_happened", {"receipt": 2}, 2)],
)
async def test_a_word_on_an_uncertain_call_lets_the_job_go_on(
    backend: Backend, decision: str, output: Any, sent: int
) -> None:
    async with lives(backend) as one:
        job_id = await one.uncertain()
        one.clock.advance(2 * MINUTE)
        result = None if decision == "not_happened" else {"receipt": 7}
        reconcile = partial(
            one.client.reconcile,
            job_id,
            "0/pay#1",
            decision,
            why="I looked",
            by="ada",
            result=result,
            operation_id="op-1",
        )
        said = await reconcile()
        assert (said.at_once, said.repeated) == (False, False)
        assert (await reconcile()).repeated, "before it was read"
        assert (await one.client.get(job_id)).needs == (), "nobody is asked a second time"
        assert (await one.go_on())[-1] == "completed"
        assert (await reconcile()).repeated, "and after"
        job = await one.client.get(job_id)
        assert (job.output, len(one.plain.log)) == (output, sent)


async def test_a_call_that_is_failed_by_a_person_reaches_the_code_as_an_error(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.uncertain()
        await one.client.reconcile(job_id, "0/pay#1", "fail", why="the bank said no", by="ada")
        assert await (await one.claim()).go() == "pending"
        (requeued,) = [event for event in await one.events(job_id) if isinstance(event, JobRequeued)]
        assert (requeued.error["type"], requeued.error["message"]) == ("CallFailed", "the bank said no")


async def test_it_did_not_happen_is_not_believed_before_it_can_be_known(backend: Backend) -> None:
    """Until the quiet period is over the old worker may still send. Refused to the microsecond, then accepted."""
    async with lives(backend) as one:
        job_id = await one.uncertain()
        (need,) = (await one.client.get(job_id)).needs
        assert need.allowed_at is not None
        (row,) = await one.store.ledger.list(job_id)
        assert need.allowed_at == (row.start_by or 0) + (row.longest_call_us or 0) + 5 * SECOND
        one.clock.advance(need.allowed_at - one.clock.wall_us() - 1)
        say = partial(one.client.reconcile, job_id, "0/pay#1", "not_happened", why="I looked", by="ada")
        async with refuses(one, job_id, InvalidMove) as caught:
            await say()
        assert "too early" in str(caught[0])
        assert "2023-11-14" in str(caught[0]), "it says when"
        one.clock.advance(1)
        await say()


async def test_what_cannot_be_reconciled(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.uncertain()

        async def say(step: str = "0/pay#1", decision: str = "happened", **more: Any) -> None:
            fields = {"why": "I looked", "by": "ada"} | more
            await one.client.reconcile(job_id, step, decision, **fields)

        refused: list[tuple[type[HoldfastError], str, dict[str, Any]]] = [
            (NotFound, "has no call", {"step": "0/pay#2"}),
            (NotFound, "has no generation 3", {"generation": 3}),
            (NotFound, "has no call", {"step": "0/look#1"}),
            (InvalidPayload, "not a decision", {"decision": "perhaps"}),
            (InvalidPayload, "needs a reason", {"why": " "}),
            (InvalidPayload, "takes no result", {"decision": "fail", "result": 1}),
            (InvalidPayload, "", {"result": float("nan")}),
            (InvalidName, "by has 0 characters", {"by": ""}),
        ]
        for kind, text, fields in refused:
            async with refuses(one, job_id, kind) as caught:
                await say(**fields)
            assert text in str(caught[0])
        async with refuses(one, job_id, NotFound) as caught:
            await say("0/pay#2")
        assert "'0/pay#1'" in caught[0].hint, "it names the call that waits"
        await say()
        async with refuses(one, job_id, Conflict) as caught:
            await say(decision="skip")
        assert str(caught[0]) == "ada has already decided 'happened' for 0/pay#1"
        await one.go_on()
        async with refuses(one, job_id, InvalidMove):
            await say(decision="skip")


@pytest.mark.parametrize("late", [False, True])
async def test_of_two_who_speak_at_once_one_is_heard_and_the_other_told(backend: Backend, late: bool) -> None:
    """Both have looked before either has spoken; `late` makes sure of it by holding the first letter back."""
    async with lives(backend) as one:
        job_id = await one.uncertain()
        send, looked, held = one.store.post.send, asyncio.Event(), asyncio.Event()

        async def slow(draft: MailDraft) -> Any:
            if late and draft.sender == "bob":
                looked.set()
                await held.wait()
            return await send(draft)

        one.store.post.send = slow  # type: ignore[method-assign]
        bob = asyncio.create_task(one.client.reconcile(job_id, "0/pay#1", "skip", why="no", by="bob"))
        if late:
            await looked.wait()
        else:
            await asyncio.wait([bob])
        ada = await asyncio.gather(
            one.client.reconcile(job_id, "0/pay#1", "fail", why="no", by="ada"), return_exceptions=True
        )
        held.set()
        said = await asyncio.gather(bob, return_exceptions=True)
        assert [isinstance(answer, Conflict) for answer in (*said, *ada)] == [late, not late]
        if late:
            assert str(said[0]) == "ada has already decided: fail"
        one.store.post.send = send  # type: ignore[method-assign]


async def test_a_call_that_was_settled_is_not_uncertain(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.parked()
        async with refuses(one, job_id, InvalidMove) as caught:
            await one.client.reconcile(job_id, "0/pay#1", "happened", why="I looked", by="ada")
        assert str(caught[0]) == "the outcome of call 0/pay#1 is known: succeeded"


# ── dead letters ──────────────────────────────────────────────────────────────────────────────────


async def test_a_dead_letter_is_tried_again_from_nothing(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.dead()
        assert (await one.client.get(job_id)).attempts == 3
        said = await one.client.requeue(job_id, why="the page is there now", by="ada", operation_id="op-1")
        assert said.at_once
        job = await one.client.get(job_id)
        assert (job.status, job.attempts, job.takeovers, job.needs) == (Status.PENDING, 0, 0, ())
        assert (await one.events(job_id))[-1] == JobRequeued(
            why="the page is there now", by="ada", operation_id="op-1"
        )
        assert (
            await one.client.requeue(job_id, why="the page is there now", by="ada", operation_id="op-1")
        ).repeated
        async with refuses(one, job_id, InvalidMove) as caught:
            await one.client.requeue(job_id, by="ada")
        assert "is not a dead letter: it is pending" in str(caught[0])
        assert await one.go_on() == ["pending", "pending", "waiting"], "three more attempts"


async def test_resuming_a_dead_letter_is_requeueing_it(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.dead()
        resume = partial(one.client.resume, job_id, why="again", by="ada", operation_id="op-1")
        assert (await resume()).at_once
        assert (await resume()).repeated
        assert (await one.client.get(job_id)).attempts == 0
        assert await one.store.post.read(job_id) == []


async def test_a_discarded_dead_letter_is_over_and_says_who_and_why(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.dead()
        async with refuses(one, job_id, InvalidPayload):
            await one.client.discard(job_id, why="", by="ada")
        assert (await one.client.discard(job_id, why="not needed", by="ada", operation_id="op-1")).at_once
        assert (await one.client.discard(job_id, why="not needed", by="ada", operation_id="op-1")).repeated
        assert (await one.client.get(job_id)).status is Status.CANCELLED
        asked = (await one.events(job_id))[-2]
        assert asked == CancelRequested(by="ada", why="not needed", operation_id="op-1")
        async with refuses(one, job_id, InvalidMove):
            await one.client.discard(job_id, why="again", by="ada")
        sleeping = await one.sleeping()
        async with refuses(one, sleeping, InvalidMove) as caught:
            await one.client.discard(sleeping, why="no", by="ada")
        assert "it is waiting (timer)" in str(caught[0])


# ── resume, signal, approve ───────────────────────────────────────────────────────────────────────


async def test_a_parked_job_is_resumed_by_a_letter(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.parked()
        resume = partial(
            one.client.resume,
            job_id,
            choice="accept",
            why="the payment was right",
            by="ada",
            operation_id="op-1",
        )
        assert not (await resume()).at_once
        (letter,) = await one.store.post.read(job_id)
        assert (letter.kind, letter.sender) == (MailKind.RESUME, "ada")
        assert letter.body == {"choice": "accept", "why": "the payment was right"}
        assert (await one.store.jobs.head(job_id)).status is Status.PENDING, "a worker may take it"
        assert (await resume()).repeated


@pytest.mark.parametrize("state", ["pending", "sleeping", "finished", "uncertain"])
async def test_a_job_that_is_not_held_is_not_resumed(backend: Backend, state: str) -> None:
    async with lives(backend) as one:
        make = {
            "pending": lambda: one.submit(one.refund),
            "sleeping": one.sleeping,
            "finished": one.finished,
            "uncertain": one.uncertain,
        }[state]
        job_id = await make()
        async with refuses(one, job_id, InvalidMove):
            await one.client.resume(job_id, by="ada")
        async with refuses(one, job_id, InvalidPayload):
            await one.client.resume(job_id, choice="perhaps")


async def test_a_signal_is_a_letter(backend: Backend) -> None:
    async with lives(backend) as one:
        over = await one.finished()
        job_id = await one.sleeping()
        send = partial(one.client.signal, job_id, "paid", by="ada", operation_id="op-1")
        await send({"cents": 1})
        assert (await send({"cents": 1})).repeated
        async with refuses(one, job_id, KeyReused):
            await send({"cents": 2})
        (letter,) = await one.store.post.read(job_id)
        assert (letter.kind, letter.name, letter.body, letter.sender) == (
            MailKind.SIGNAL,
            "paid",
            {"cents": 1},
            "ada",
        )
        async with refuses(one, job_id, InvalidName):
            await one.client.signal(job_id, "a\nb")
        async with refuses(one, over, InvalidMove):
            await one.client.signal(over, "paid")


@pytest.mark.parametrize("by_job", [True, False])
async def test_an_approval_is_decided_once(backend: Backend, by_job: bool) -> None:
    async with lives(backend) as one:
        job_id = await one.asking()
        name = job_id if by_job else "apr_1"
        deny = partial(one.client.deny, name, why="too much", by="ada", operation_id="op-1")
        await deny()
        assert (await deny()).repeated
        (letter,) = await one.store.post.read(job_id)
        assert (letter.kind, letter.sender) == (MailKind.APPROVAL, "ada")
        assert letter.body == {"approval_id": "apr_1", "decision": "denied", "why": "too much"}
        async with refuses(one, job_id, Conflict) as caught:
            await one.client.approve(name, by="bob")
        assert str(caught[0]) == "approval apr_1 was already denied by ada"


async def test_what_cannot_be_approved(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.asking(expires_at=one.clock.wall_us() + MINUTE)
        async with refuses(one, job_id, NotFound):
            await one.client.approve("apr_2", by="ada")
        async with refuses(one, job_id, NotFound):
            await one.client.approve(job_id, step_key="0/other#1", by="ada")
        async with refuses(one, job_id, InvalidName):
            await one.client.approve(job_id, by="")
        one.clock.advance(MINUTE)
        async with refuses(one, job_id, InvalidMove) as caught:
            await one.client.approve(job_id, by="ada")
        assert "expired" in str(caught[0])
        sleeping = await one.sleeping()
        async with refuses(one, sleeping, NotFound):
            await one.client.approve(sleeping, by="ada")


async def test_an_unknown_job_is_not_found_by_any_word(backend: Backend) -> None:
    async with lives(backend) as one:
        client = one.client
        calls = (
            client.get("job_none"),
            client.trace("job_none"),
            client.events("job_none"),
            client.verify("job_none"),
            client.result("job_none"),
            client.cancel("job_none"),
            client.signal("job_none", "paid"),
            client.resume("job_none"),
            client.requeue("job_none"),
            client.discard("job_none", why="no"),
            client.reconcile("job_none", "0/pay#1", "skip", why="no", by="ada"),
            client.approve("job_none", by="ada"),
        )
        for call in calls:
            with pytest.raises(NotFound):
                await call


async def test_a_job_of_another_namespace_is_not_found(backend: Backend) -> None:
    async with lives(backend) as one:
        await one.store.namespaces.create("other")
        other = await one.store.jobs.submit(JobDraft(kind="refund", namespace="other"))
        for call in (one.client.get(other.job_id), one.client.cancel(other.job_id)):
            with pytest.raises(NotFound):
                await call
        assert len(await one.client.list()) == 0


async def test_a_row_in_the_ledger_follows_the_word(backend: Backend) -> None:
    """A person's word is in the ledger when the job has gone on, and its reason in the journal."""
    async with lives(backend) as one:
        job_id = await one.uncertain()
        await one.client.reconcile(job_id, "0/pay#1", "happened", why="I looked", by="ada", result=1)
        await one.go_on()
        (row,) = await one.store.ledger.list(job_id)
        assert row.status is CallStatus.SUCCEEDED
        assert (await one.store.jobs.head(job_id)).wait_reason is not WaitReason.RECONCILE
        assert msgspec.to_builtins((await one.client.trace(job_id)).notes[-1])["text"] == (
            "ada decided about pay: it happened (I looked)."
        )
