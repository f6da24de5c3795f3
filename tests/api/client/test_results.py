"""What comes of a job: the answer to a message, what it says, its past walked again and shared."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.api.job_records import Walked
from holdfast.engine.checkpoints import checkpoint
from holdfast.engine.crash_points import Point
from holdfast.engine.execution import Execution
from holdfast.errors import InvalidMove, KeyReused, NotFound, NotOver
from holdfast.model.events import JobCreated
from holdfast.model.states import Status
from holdfast.model.streams import StreamLine, passage_of
from holdfast.store.ports.streams import StreamAppend
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import CLIENTS, lives
from tests.api.client.test_agents import CLERK, answered

pytestmark = pytest.mark.parametrize("backend", CLIENTS, indirect=True)


# ── the answer ────────────────────────────────────────────────────────────────────────────────────


async def test_the_answer_to_a_message(backend: Backend) -> None:
    """Also for one that joined the turn of another, which answers both."""
    async with lives(backend) as one:
        await one.store.presences.beat(CLERK)
        first = await one.client.message("clerk", "one")
        second = await one.client.message("clerk", "two")
        with pytest.raises(NotOver):
            await one.client.reply(first.job_id, timeout_s=0)
        await answered(one)
        reply = await one.client.reply(first.job_id)
        assert (reply.text, reply.session_id) == ("2 new: ['one', 'two']", first.session_id)
        assert reply.turn_job_id == first.job_id
        joined = await one.client.reply(second.job_id)
        assert (joined.job_id, joined.turn_job_id) == (second.job_id, first.job_id)
        assert (joined.text, joined.node_id) == (reply.text, reply.node_id)


async def test_no_answer_is_said_at_once(backend: Backend) -> None:
    """Nobody waits for a message that was cancelled, for a job that is none, or for one that is not there."""
    async with lives(backend) as one:
        await one.store.presences.beat(CLERK)
        posted = await one.client.message("clerk", "one")
        await one.client.cancel(posted.job_id)
        with pytest.raises(InvalidMove, match="is cancelled: there is no reply"):
            await one.client.reply(posted.job_id)
        with pytest.raises(InvalidMove, match="answers no message"):
            await one.client.reply(await one.sleeping())
        with pytest.raises(NotFound):
            await one.client.reply("nobody")


# ── what it says ──────────────────────────────────────────────────────────────────────────────────


async def test_what_a_job_says_is_heard_from_a_cursor_on(backend: Backend) -> None:
    async with lives(backend) as one:
        async with one.running() as (job_id, run):
            grant = run.grant
            for last, stream, words in ((2, "text", ["a", "b"]), (3, "out", ["c"]), (4, "out", [{"d": 4}])):
                passage = passage_of(grant.fence, last, [StreamLine(stream, "0/slow#1", 1, 0, words)])
                await one.store.streams.append([StreamAppend(run.held, passage)])
            await one.client.cancel(job_id)
            run.poke()
            async with asyncio.timeout(30):
                heard: list[Any] = [chunk async for chunk in one.client.stream(job_id)]
        assert [chunk.said for chunk in heard] == ["a", "b", "c", {"d": 4}]
        again = [chunk async for chunk in one.client.stream(job_id, after=heard[1].cursor)]
        assert again == heard[2:]
        text = [chunk async for chunk in one.client.stream(job_id, stream="text")]
        assert text == heard[:2]
        with pytest.raises(NotFound):
            await anext(one.client.stream("nobody"))


# ── its past ──────────────────────────────────────────────────────────────────────────────────────


async def test_what_a_replay_would_be_handed(backend: Backend) -> None:
    """A finished job: every call with its result, in the order in which the code hears of them."""
    async with lives(backend) as one:
        job_id = await one.finished()
        walk = await one.client.walk(job_id)
        job = await one.client.get(job_id)
        assert (walk.status, walk.input, walk.output, walk.from_seq) == (
            Status.COMPLETED,
            job.input,
            job.output,
            0,
        )
        assert {step.answer for step in walk.steps} == {Walked.RETURNS}
        seqs = [step.seq for step in walk.steps]
        assert seqs == sorted(seq for seq in seqs if seq is not None)
        mail = next(step for step in walk.steps if step.name == "send_report")
        assert (mail.effect, mail.result, mail.args["order"]) == ("idempotent", job.output["sent"], "A-1")
        assert [step.name for step in walk.steps] == ["look", "look", "send_report", "sleep", "look"]


@pytest.mark.parametrize(
    "state, name, answer",
    [
        ("uncertain", "pay", Walked.WAITS),
        ("killed", "pay", Walked.RECOVERS),
        ("sleeping", "sleep", Walked.WAITS),
    ],
)
async def test_a_call_without_an_outcome_says_what_becomes_of_it(
    backend: Backend, state: str, name: str, answer: Walked
) -> None:
    async with lives(backend) as one:
        make = {
            "uncertain": one.uncertain,
            "killed": lambda: one.killed(one.refund, "pay", Point.AFTER_INTENT),
            "sleeping": one.sleeping,
        }[state]
        walk = await one.client.walk(await make())
        last = walk.steps[-1]
        assert (last.name, last.answer, last.seq) == (name, answer, None)
        assert all(step.answer is Walked.RETURNS for step in walk.steps[:-1])


async def test_a_failure_that_is_tried_again_is_not_handed_over(backend: Backend) -> None:
    """While attempts are left the failed call is made anew, so a resume has nothing for it; the last failure stays."""
    async with lives(backend) as one:
        job_id = await one.submit(one.hopeless)
        assert await (await one.claim()).go() == "pending"
        assert (await one.client.walk(job_id)).steps == ()
        await one.go_on()
        (failed,) = (await one.client.walk(job_id)).steps
        assert (failed.answer, failed.error["type"]) == (Walked.RAISES, "LookupError")
        with pytest.raises(NotFound):
            await one.client.walk("nobody")


async def test_a_walk_starts_from_the_last_commit(backend: Backend) -> None:
    async with lives(backend) as one:

        async def saves(drive: Execution, _: Any) -> Any:
            await one.look(drive, "before")
            await checkpoint(drive, {"page": 1})
            await one.look(drive, "after")

        job_id = await one.submit(saves)
        assert await (await one.claim()).go() == "completed"
        walk = await one.client.walk(job_id)
        assert (walk.state, walk.from_seq > 1) == ({"page": 1}, True)
        assert [step.name for step in walk.steps] == ["look"]


async def test_a_fork_shares_the_past_and_is_made_once(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.finished()
        made = await one.client.fork(job_id, at="0/send_report#1", fork_id="other", input="B-2")
        assert (made.job_id, made.created) == ("other", True)
        again = await one.client.fork(job_id, at="0/send_report#1", fork_id="other", input="B-2")
        assert (again.job_id, again.created) == ("other", False)
        with pytest.raises(KeyReused):
            await one.client.fork(job_id, at="0/send_report#1", fork_id="other", input="C-3")
        created = (await one.events("other"))[0]
        assert isinstance(created, JobCreated)
        assert (created.forked_from, created.input) == (job_id, "B-2")
        read = next(step.step_key for step in (await one.client.walk(job_id)).steps if step.name == "look")
        told = {"edits": {read: "another"}, "by": "ada", "why": "what if"}
        edited = await one.client.fork(job_id, at="0/send_report#1", **told)  # type: ignore[arg-type]
        begun = (await one.events(edited.job_id))[0]
        assert isinstance(begun, JobCreated)
        assert (begun.edited["by"].partition(" ")[0], list(begun.edited["steps"])) == ("ada", [read])
        keyed = await one.client.fork(job_id, at=3, request_key="k")
        assert not (await one.client.fork(job_id, at=3, request_key="k")).created
        same = (await one.events(keyed.job_id))[0]
        assert isinstance(same, JobCreated)
        assert same.input == "A-1"
        with pytest.raises(NotFound):
            await one.client.fork("nobody", at=1)
