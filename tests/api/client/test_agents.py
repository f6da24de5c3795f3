"""Agents and workers as an outsider meets them: created, listed, written to, over a store and over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.agents.app_registry import AppRegistry
from holdfast.agents.job_handle import Host
from holdfast.agents.sessions import Turn
from holdfast.errors import Conflict, InvalidMove, InvalidName, InvalidPayload, KeyReused, NotFound
from holdfast.model.audit import read_act
from holdfast.model.inbox import Delivery, SlotPolicy
from holdfast.model.jobs import JobDraft
from holdfast.model.states import Status
from holdfast.model.worker_identity import Identity, worker_name
from holdfast.model.worker_presence import LOST_US, Presence, SessionKind, WorkerOffer, WorkerState
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import CLIENTS, Lives, lives

pytestmark = pytest.mark.parametrize("backend", CLIENTS, indirect=True)

CLERK = Presence(
    worker=worker_name("hill", Identity("boot", 1, 17, 4)),
    identity="@boot/1/17/4",
    host="hill",
    pid=17,
    offer=WorkerOffer(
        kinds=("assistant", "clerk", "report"),
        sessions=(SessionKind(name="clerk", queue="talk", priority=7),),
        queues=("default", "talk"),
        capabilities=("gpu",),
        concurrency=4,
    ),
)

OTHERS: tuple[dict[str, Any], ...] = (
    {"content": "goodbye"},
    {"content": "hello", "session_id": "ada"},
    {"content": "hello", "delivery": Delivery.AFTER_CURRENT_TURN_COMMIT},
    {"content": "hello", "slot": SlotPolicy.EXCLUSIVE},
)


class Hosted(AppRegistry):
    """An application whose only host is the test."""

    async def host(self) -> Host:
        raise AssertionError("nobody is asked to host")


async def answered(one: Lives, *queues: str) -> None:
    """A worker with the code of `clerk` and of configured agents drives whatever can be claimed, until nothing can."""
    app = Hosted()

    @app.session(queue="talk", priority=7)
    async def clerk(turn: Turn) -> str:
        return f"{len(turn.inputs)} new: {[message['content'] for message in turn.said]}"

    one.programs.update(app.programs())
    for queue in queues or ("default", "talk"):
        while runs := await one.claim_all(queue=queue):
            assert {await run.go() for run in runs} == {"completed"}


# ── configured agents ─────────────────────────────────────────────────────────────────────────────


async def test_an_agent_is_created_once_and_found(backend: Backend) -> None:
    async with lives(backend) as one:
        client = one.client
        made = await client.create_agent(
            "helper", model="anthropic:x", instructions="Be brief.", tools=["lookup"], context_tokens_max=9
        )
        assert (made.name, made.kind, made.declared) == ("helper", "assistant", False)
        assert made.configuration is not None
        assert (made.configuration.model, made.configuration.tools) == ("anthropic:x", ("lookup",))
        assert made.session_id == made.agent_id
        again = await client.create_agent(
            "helper", model="anthropic:x", instructions="Be brief.", tools=["lookup"], context_tokens_max=9
        )
        assert again == made == await client.get_agent("helper") == await client.get_agent(made.agent_id)
        with pytest.raises(Conflict):
            await client.create_agent("helper")
        with pytest.raises(NotFound, match="there is no agent 'nobody'"):
            await client.get_agent("nobody")
        assert (await client.list_agents()).items == (made,)


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"name": "\x1b"}, InvalidName),
        ({"name": "a", "model": "hal:9000"}, InvalidPayload),
        ({"name": "a", "model": "anthropic:"}, InvalidPayload),
        ({"name": "a", "tools": ["x", "x"]}, InvalidPayload),
        ({"name": "a", "context_tokens_max": 0}, InvalidPayload),
    ],
)
async def test_an_agent_that_makes_no_sense_is_refused(
    backend: Backend, wrong: dict[str, Any], error: type[Exception]
) -> None:
    async with lives(backend) as one:
        with pytest.raises(error):
            await one.client.create_agent(**wrong)
        assert (await one.client.list_agents()).items == ()


async def test_configured_and_declared_agents_are_listed_together_by_name(backend: Backend) -> None:
    """Every page size gives every agent once, whichever kind is at the seam."""
    async with lives(backend) as one:
        for name in ("anna", "bert", "dora", "emil"):
            await one.client.create_agent(name)
        for nth, kinds in enumerate((("clerk", "zoe"), ("aaron", "clerk", "bert"))):
            offer = WorkerOffer(sessions=tuple(SessionKind(name=kind) for kind in kinds))
            await one.store.presences.beat(Presence(worker=f"w{nth}", identity=f"i{nth}", offer=offer))
        everybody = ["aaron", "anna", "bert", "clerk", "dora", "emil", "zoe"]
        for limit in range(1, 9):
            found: list[tuple[str, bool]] = []
            cursor: str | None = None
            while True:
                page = await one.client.list_agents(limit=limit, cursor=cursor)
                assert len(page) <= limit
                found += [(agent.name, agent.declared) for agent in page]
                cursor = page.next
                if cursor is None:
                    break
            assert [name for name, _ in found] == everybody
            assert [name for name, declared in found if declared] == ["aaron", "clerk", "zoe"]


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_message_to_a_configured_agent_is_answered_in_its_conversation(backend: Backend) -> None:
    async with lives(backend) as one:
        helper = await one.client.create_agent("helper")
        first = await one.client.message("helper", "hello")
        assert (first.session_id, first.agent_id, first.repeated) == (
            helper.agent_id,
            helper.agent_id,
            False,
        )
        assert (await one.client.get(first.job_id)).status is Status.PENDING
        other = await one.client.message(helper.agent_id, "hello", session_id="ada")
        assert other.session_id == "ada"
        await answered(one)
        for posted in (first, other):
            job = await one.client.get(posted.job_id)
            assert (job.status, job.kind, job.session_id) == (
                Status.COMPLETED,
                "assistant",
                posted.session_id,
            )
            assert (await one.client.verify(posted.job_id)).violations == ()
        view = await one.store.sessions.load(helper.agent_id)
        assert view is not None
        assert view.graph.nodes[0].body["input"] == {"content": "hello"}


async def test_a_message_again_is_the_same_message(backend: Backend) -> None:
    """Also when it was answered long ago; other words, another session or another policy under its key are refused."""
    async with lives(backend) as one:
        await one.client.create_agent("helper")
        first = await one.client.message("helper", "hello", request_key="m-1")
        again = await one.client.message("helper", "hello", request_key="m-1")
        assert (again.job_id, again.repeated) == (first.job_id, True)
        for settled in (False, True):
            if settled:
                await answered(one)
            repeat = await one.client.message("helper", "hello", request_key="m-1")
            assert (repeat.job_id, repeat.repeated) == (first.job_id, True)
            for other in OTHERS:
                with pytest.raises(KeyReused):
                    await one.client.message("helper", request_key="m-1", **other)
        assert len(await one.client.agent_jobs("helper")) == 1
        by_id = await one.client.message("helper", "hi", job_id="mine")
        assert (by_id.job_id, by_id.repeated) == ("mine", False)
        assert (await one.client.message("helper", "hi", job_id="mine")).repeated
        with pytest.raises(KeyReused):
            await one.client.message("helper", "ho", job_id="mine")


async def test_a_message_to_code_goes_where_its_worker_said(backend: Backend) -> None:
    async with lives(backend) as one:
        with pytest.raises(NotFound):
            await one.client.message("clerk", "hello")
        assert (await one.client.list()).items == ()
        await one.store.presences.beat(CLERK)
        posted = await one.client.message("clerk", ["two", {"three": 4}])
        assert posted.session_id == "agent:clerk"
        head = await one.store.jobs.head(posted.job_id)
        assert (head.kind, head.queue, head.priority) == ("clerk", "talk", 7)
        agent = await one.client.get_agent("clerk")
        assert (agent.declared, agent.configuration, agent.session_id) == (True, None, "agent:clerk")
        await answered(one)
        assert (await one.client.get(posted.job_id)).status is Status.COMPLETED
        assert [record.job_id for record in await one.client.agent_jobs("clerk")] == [posted.job_id]


async def test_code_that_took_a_message_is_known_while_no_worker_is_there(backend: Backend) -> None:
    """A worker that is being restarted is not a reason to refuse a message."""
    async with lives(backend) as one:
        await one.store.presences.beat(CLERK)
        first = await one.client.message("clerk", "hello")
        await one.store.presences.remove(CLERK.worker, CLERK.identity)
        second = await one.client.message("clerk", "still there?")
        head = await one.store.jobs.head(second.job_id)
        assert (head.queue, head.priority, second.session_id) == ("talk", 7, first.session_id)
        await one.store.jobs.submit(JobDraft(kind="report", session_id="s1"))
        with pytest.raises(NotFound):
            await one.client.message("report", "a job in a session is no message")


async def test_the_jobs_of_an_agent_are_its_own(backend: Backend) -> None:
    """Newest first, in pages, among messages to others; a job without an agent is nobody's."""
    async with lives(backend) as one:
        for name in ("anna", "bert"):
            await one.client.create_agent(name)
        sent: dict[str, list[str]] = {"anna": [], "bert": []}
        for number in range(7):
            name = "bert" if number % 3 else "anna"
            posted = await one.client.message(name, str(number), session_id=f"s{number}")
            sent[name].insert(0, posted.job_id)
        await one.store.jobs.submit(JobDraft(kind="assistant"))
        for name, expected in sent.items():
            for limit in (1, 2, 100):
                found: list[str] = []
                cursor: str | None = None
                while True:
                    page = await one.client.agent_jobs(name, limit=limit, cursor=cursor)
                    assert len(page) <= limit
                    found += [record.job_id for record in page]
                    cursor = page.next
                    if cursor is None:
                        break
                assert found == expected


async def test_a_full_queue_takes_no_message(backend: Backend) -> None:
    from holdfast.errors import Busy
    from holdfast.model.queue_limits import QueueLimits

    async with lives(backend) as one:
        await one.client.create_agent("helper")
        await one.store.queues.limit(QueueLimits(queue="default", depth_max=0))
        with pytest.raises(Busy):
            await one.client.message("helper", "hello")
        assert (await one.client.list()).items == ()


# ── workers ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_worker_is_listed_as_it_said(backend: Backend) -> None:
    async with lives(backend) as one:
        assert (await one.client.list_workers()).items == ()
        await one.store.presences.beat(CLERK)
        await one.store.presences.beat(Presence(worker="ant", identity="i"))
        async with one.running():
            ant, hill = await one.client.list_workers()
            assert (ant.worker, ant.holds, ant.state, ant.label) == ("ant", 1, WorkerState.HERE, "ant")
            assert (hill.worker, hill.label, hill.holds) == (CLERK.worker, "hill:17", 0)
            assert (hill.host, hill.pid, hill.concurrency) == ("hill", 17, 4)
            assert (hill.queues, hill.capabilities) == (("default", "talk"), ("gpu",))
            assert hill.sessions == CLERK.offer.sessions
        first = await one.client.list_workers(limit=1)
        second = await one.client.list_workers(limit=1, cursor=first.next)
        assert [one.worker for one in (*first, *second)] == ["ant", CLERK.worker]
        one.clock.advance(LOST_US)
        assert {worker.state for worker in await one.client.list_workers()} == {WorkerState.LOST}


async def test_a_worker_is_asked_to_drain_with_a_reason_that_is_kept(backend: Backend) -> None:
    async with lives(backend) as one:
        drains = Presence(worker="ant", identity="i", offer=WorkerOffer(drains=True))
        await one.store.presences.beat(drains)
        with pytest.raises(InvalidPayload, match="reason"):
            await one.client.drain_worker("ant", why=" ", by="ada")
        with pytest.raises(NotFound):
            await one.client.drain_worker("bee", why="enough", by="ada")
        asked = await one.client.drain_worker("ant", why="enough", by="ada", operation_id="op-1")
        assert (asked.drains, asked.draining, asked.drain_asked_at) == (True, False, one.clock.wall_us())
        assert await one.client.drain_worker("ant", why="again", by="eve") == asked, "the first word stands"
        assert (await one.store.presences.beat(drains)).drain
        lines = [read_act(line) for line in await one.store.audit.read()]
        (line,) = [line for line in lines if line.what == "worker.drain"]
        assert (line.object, line.reason) == ("ant", "enough")
        assert "ada" in f"{line.who} {line.detail}"
        await one.store.presences.beat(Presence(worker="deaf", identity="j"))
        with pytest.raises(InvalidMove):
            await one.client.drain_worker("deaf", why="enough", by="ada")
