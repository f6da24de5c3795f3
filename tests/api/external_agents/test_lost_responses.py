"""The server goes away, answers are lost, agents are killed: the work is completed once."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from holdfast.client import ExternalAgent, RemoteClient, WorkAssignment
from holdfast.client.local_token import find_token
from holdfast.server.settings import Settings
from tests.api.external_agents.losing import Losing, losing
from tests.api.external_agents.place import LEASE_S, agent, ended, facts, place, processes, serving, until

pytestmark = pytest.mark.store("sqlite")


def through(wire: Losing, client: RemoteClient, wait_seconds: int) -> ExternalAgent:
    """An agent at the far end of the wire."""
    wire.to = int(client.url.rpartition(":")[2])
    return ExternalAgent(
        f"http://127.0.0.1:{wire.port}",
        handle="summer",
        key=find_token(client.url),
        lease_seconds=LEASE_S,
        wait_seconds=wait_seconds,
    )


async def test_lost_answers_cost_nothing(volatile_folder: Path) -> None:
    """Goal: whatever answer is lost, the function runs once and its result is kept. Method: a wire that loses the
    answer to each kind of request, twice, so that the client's own second try is lost too."""
    calls: list[str] = []
    async with (
        losing() as wire,
        place(volatile_folder, Settings(hosts=(f"127.0.0.1:{wire.port}",))) as client,
    ):
        summer = through(wire, client, wait_seconds=2)

        @summer.serves("summarize")
        async def summarize(work: WorkAssignment) -> str:
            calls.append(work.id)
            await work.progress(50)
            return "short"

        for ending in ("/register", "/claim", "/progress", "/complete"):
            wire.lose(ending, times=2)
        sent = await client.submit_work("kelp", "summarize")
        async with serving(summer):
            assert (await ended(client, sent.id)).result == "short"
            second = await client.submit_work("more kelp", "summarize")
            assert (await ended(client, second.id)).result == "short"
        told = await facts(client, sent.id)
    assert set(wire.lost) == {"/register", "/claim", "/progress", "/complete"}
    assert set(wire.lost.values()) == {2}
    assert calls == [sent.id, second.id]
    assert (told["job_claimed"], told["job_completed"]) == (1, 1)


async def test_an_agent_that_left_is_given_nothing(volatile_folder: Path) -> None:
    """Goal: work that comes when an agent has just stopped waiting for it is anybody's at once. Method: an agent is
    drained while its claim waits, and another one asks."""
    async with (
        losing() as wire,
        place(volatile_folder, Settings(hosts=(f"127.0.0.1:{wire.port}",))) as client,
    ):
        summer = through(wire, client, wait_seconds=30)
        summer.serves("summarize")(print)
        async with serving(summer):
            while not wire.passed["/claim"]:
                await client.stats()
            for _ in range(5):
                await client.stats()  # and the server has it, and waits
        other = await client.register_agent(
            "other", "test", capabilities=["summarize"], max_concurrent_tasks=5
        )
        for n in range(5):
            sent = await client.submit_work(f"kelp {n}", "summarize")
            (claimed,) = await client.claim_work(other.guid, wait_seconds=1)
            assert claimed.id == sent.id
            assert (await facts(client, sent.id))["job_claimed"] == 1


async def test_what_a_lost_answer_granted_is_given_back_at_the_end(volatile_folder: Path) -> None:
    """Goal: an agent that stops leaves nothing behind, not even what it never heard of. Method: no claim is answered,
    until the agent is drained."""
    async with (
        losing() as wire,
        place(volatile_folder, Settings(hosts=(f"127.0.0.1:{wire.port}",))) as client,
    ):
        summer = through(wire, client, wait_seconds=2)
        summer.serves("summarize")(print)
        wire.lose("/claim", times=10**6)
        sent = await client.submit_work("kelp", "summarize")
        async with serving(summer):
            await until(client, sent.id, lambda work: work.status == "assigned")
            wire.lose("/claim", times=0)
        back = await client.get_work(sent.id)
        assert (back.status, back.attempts) == ("pending", 0)


async def test_a_server_that_does_not_wait_is_not_asked_in_a_loop(volatile_folder: Path) -> None:
    async with (
        losing() as wire,
        place(volatile_folder, Settings(hosts=(f"127.0.0.1:{wire.port}",))) as client,
    ):
        summer = through(wire, client, wait_seconds=0)
        summer.serves("summarize")(lambda work: work.description)
        other = await client.register_agent("other", "test", capabilities=["nothing"])
        async with serving(summer):
            assert await client.claim_work(other.guid, wait_seconds=3) == ()
            assert 1 <= wire.passed["/claim"] <= 4
            sent = await client.submit_work("kelp", "summarize")
            assert (await ended(client, sent.id)).result == "kelp"


async def test_the_server_is_restarted_while_the_function_runs(volatile_folder: Path) -> None:
    """Goal: a result that is ready while nobody is there is told when somebody is. Method: kill -9 of the server, the
    function returns, the server comes back with another token."""
    begun, go = asyncio.Event(), asyncio.Event()
    with processes(volatile_folder) as there:
        api = await asyncio.to_thread(there.serve)
        async with RemoteClient(there.url) as client:
            summer = agent(client)

            @summer.serves("summarize")
            async def summarize(work: WorkAssignment) -> str:
                begun.set()
                await go.wait()
                return "short"

            sent = await client.submit_work("kelp", "summarize")
            async with serving(summer):
                await begun.wait()
                there.kill(api)
                go.set()
                await asyncio.to_thread(there.serve)
                done = await ended(client, sent.id)
                again = await client.submit_work("more", "summarize")
                assert (await ended(client, again.id)).result == "short"
            assert (done.result, done.assigned_to) == ("short", summer.guid)
            told = await facts(client, sent.id)
        assert (told["job_claimed"], told["job_completed"]) == (1, 1)


async def test_a_killed_agent_is_replaced_and_the_work_completed_once(volatile_folder: Path) -> None:
    """Goal: kill -9 in the middle of work costs a lease, no more. Method: the second agent asks from the beginning."""
    with processes(volatile_folder) as there:
        await asyncio.to_thread(there.serve)
        async with RemoteClient(there.url) as client:
            never = str(volatile_folder / "never")
            first, log = await asyncio.to_thread(there.agent, "first", "--hold", never)
            sent = await client.submit_work("kelp grows. fast.", "summarize")
            await asyncio.to_thread(there.hear, first, log, f"begun {sent.id} 1")
            await asyncio.to_thread(there.agent, "second")
            assert (await client.get_work(sent.id)).status == "assigned"
            there.kill(first)
            done = await ended(client, sent.id)
            told = await facts(client, sent.id)
        assert done.result == {"summary": "kelp grows", "by": "second"}
        assert (told["job_claimed"], told["job_completed"]) == (2, 1)


async def test_sigterm_lets_work_finish_and_gives_the_rest_back(volatile_folder: Path) -> None:
    """Goal: an agent that is stopped leaves nothing behind. Method: one whose function ends within its grace time, one
    whose function does not."""
    go = volatile_folder / "go"
    with processes(volatile_folder) as there:
        await asyncio.to_thread(there.serve)
        async with RemoteClient(there.url) as client:
            patient, log = await asyncio.to_thread(there.agent, "patient", "--hold", str(go))
            sent = await client.submit_work("kelp.", "summarize")
            await asyncio.to_thread(there.hear, patient, log, "begun")
            patient.send_signal(signal.SIGTERM)
            await asyncio.to_thread(there.hear, patient, log, "is stopping")
            other = await client.submit_work("not for you", "summarize")
            go.touch()
            assert await asyncio.to_thread(patient.wait, 30) == 0
            assert (await client.get_work(sent.id)).status == "completed"
            assert (await client.get_work(other.id)).status == "pending", "no new claims"

            never = str(volatile_folder / "never")
            hasty, log = await asyncio.to_thread(there.agent, "hasty", "--hold", never, "--grace", "0.1")
            await asyncio.to_thread(there.hear, hasty, log, f"begun {other.id}")
            assert await asyncio.to_thread(there.kill, hasty, signal.SIGTERM) == 0
            back = await client.get_work(other.id)
            assert (back.status, back.attempts) == ("pending", 0), "given back at once, no attempt counted"
            agents = (await client.list_registry(capability="summarize")).agents
            assert {one.handle: str(one.status) for one in agents} == {
                "hasty": "offline",
                "patient": "offline",
            }
