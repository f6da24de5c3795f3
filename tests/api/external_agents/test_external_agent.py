"""Agents that live elsewhere, over a real server: what they are given is done once and told of."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.client import ExternalAgent, RemoteClient, Unrecoverable, WorkAssignment
from holdfast.errors import InvalidPayload, InvalidSetting
from holdfast.model.agent_registry import AgentStatus, EntryChanges
from tests.api.external_agents.place import LEASE_S, agent, ended, facts, place, serving, until

pytestmark = pytest.mark.store("sqlite")


async def test_work_is_done_by_a_function_and_seen_from_outside(volatile_folder: Path) -> None:
    """Goal: registered, found, progress read, result kept. Method: a function that waits to be looked at."""
    seen = asyncio.Event()
    async with place(volatile_folder) as client:
        summer = agent(client, agent_type="test", capabilities=["summarize"], max_concurrent_tasks=2)

        @summer.serves("summarize")
        async def summarize(work: WorkAssignment) -> dict[str, Any]:
            await work.progress(40, "half")
            await seen.wait()
            return {"summary": work.description, "given": work.context_data, "attempt": work.attempt}

        sent = await client.submit_work("kelp grows", "summarize", context_data={"pages": [1, 2]})
        assert sent.status == "pending"
        async with serving(summer):
            work = await until(client, sent.id, lambda work: work.progress == 40)
            assert (work.status, work.progress_note, work.assigned_to) == ("in-progress", "half", summer.guid)
            (entry,) = (await client.list_registry(capability="summarize")).agents
            assert (entry.handle, entry.agent_type, entry.max_concurrent_tasks) == ("summer", "test", 2)
            assert entry.status is AgentStatus.ONLINE
            seen.set()
            done = await ended(client, sent.id)
            assert done.result == {"summary": "kelp grows", "given": {"pages": [1, 2]}, "attempt": 1}
        (entry,) = (await client.list_registry(capability="summarize")).agents
        assert entry.status is AgentStatus.OFFLINE, "drained, it says so"


async def test_a_blocking_function_has_a_thread_of_its_own(volatile_folder: Path) -> None:
    """Goal: the lease and the loop go on while a function blocks. Method: two of them that wait for each other."""
    together = threading.Barrier(2)
    async with place(volatile_folder) as client:
        summer = agent(client, max_concurrent_tasks=2)

        @summer.serves("add")
        def add(work: WorkAssignment) -> int:
            assert threading.current_thread() is not threading.main_thread()
            together.wait(30)
            work.progress(50, "added")
            return sum(work.context_data)

        sent = [await client.submit_work("add", "add", context_data=[n, 1]) for n in (1, 2)]
        async with serving(summer):
            assert [(await ended(client, one.id)).result for one in sent] == [2, 3]


async def test_as_much_is_taken_as_there_is_room_for(volatile_folder: Path) -> None:
    """Goal: the limit, and not more. Method: three that stay until somebody has looked who waits, then all six."""
    together, go = asyncio.Barrier(4), asyncio.Event()
    async with place(volatile_folder) as client:
        summer = agent(client, max_concurrent_tasks=3)

        @summer.serves("meet")
        async def meet(work: WorkAssignment) -> None:
            if not go.is_set():
                await together.wait()
                await go.wait()

        other = await client.register_agent("other", "test", capabilities=["nothing"])
        sent = [await client.submit_work(f"{n}", "meet") for n in range(6)]
        async with serving(summer):
            await together.wait()
            assert await client.claim_work(other.guid, wait_seconds=1) == ()
            assert len((await client.list_work(status="pending")).items) == 3
            go.set()
            for one in sent:
                await ended(client, one.id)


async def test_a_lease_is_kept_for_as_long_as_the_function_runs(volatile_folder: Path) -> None:
    """Goal: nobody takes the work of an agent that is alive. Method: a rival waits for it for two leases and more."""
    over = asyncio.Event()
    async with place(volatile_folder) as client:
        summer = agent(client)

        @summer.serves("summarize")
        async def summarize(work: WorkAssignment) -> bool:
            await over.wait()
            return work.is_ours

        rival = await client.register_agent("rival", "test", capabilities=["summarize"])
        sent = await client.submit_work("kelp", "summarize")
        async with serving(summer):
            await until(client, sent.id, lambda work: work.status == "assigned")
            assert await client.claim_work(rival.guid, wait_seconds=2 * LEASE_S + 2) == ()
            over.set()
            done = await ended(client, sent.id)
        assert (done.result, done.assigned_to) == (True, summer.guid)
        assert (await facts(client, sent.id))["job_claimed"] == 1


async def test_an_exception_is_tried_again(volatile_folder: Path) -> None:
    attempts: list[int] = []
    async with place(volatile_folder) as client:
        summer = agent(client)

        @summer.serves("summarize")
        async def summarize(work: WorkAssignment) -> str:
            attempts.append(work.attempt)
            if work.attempt == 1:
                raise LookupError("no such page")
            return "found"

        sent = await client.submit_work("kelp", "summarize")
        async with serving(summer):
            failed = await until(client, sent.id, lambda work: work.attempts == 1 or work.over)
            assert "no such page" in str(failed.error)
            assert (await ended(client, sent.id)).result == "found"
    assert attempts == [1, 2]


async def test_what_cannot_be_done_is_said_once(volatile_folder: Path) -> None:
    calls = 0
    async with place(volatile_folder) as client:
        summer = agent(client)

        @summer.serves("summarize")
        async def summarize(work: WorkAssignment) -> str:
            nonlocal calls
            calls += 1
            raise Unrecoverable("there is no text", code="empty")

        sent = await client.submit_work("kelp", "summarize")
        async with serving(summer):
            failed = await ended(client, sent.id, "failed")
        assert failed.error == {"type": "empty", "message": "there is no text"}
    assert calls == 1


async def test_a_result_that_is_no_json_fails_the_attempt(volatile_folder: Path) -> None:
    async with place(volatile_folder) as client:
        summer = agent(client)

        @summer.serves("summarize")
        async def summarize(work: WorkAssignment) -> Any:
            return object() if work.attempt == 1 else "plain"

        sent = await client.submit_work("kelp", "summarize")
        async with serving(summer):
            failed = await until(client, sent.id, lambda work: work.attempts == 1 or work.over)
            assert "object" in str(failed.error)
            assert (await ended(client, sent.id)).result == "plain"


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "blocking"])
async def test_cancelled_work_stops_its_function(volatile_folder: Path, blocking: bool) -> None:
    begun, stopped = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    async with place(volatile_folder) as client:
        summer = agent(client)

        def for_ever(work: WorkAssignment) -> None:
            if work.description == "enough":
                return
            begun.set()
            try:
                while True:
                    threading.Event().wait(0.01)
            finally:
                loop.call_soon_threadsafe(stopped.set)

        async def wait(work: WorkAssignment) -> None:
            if work.description == "enough":
                return
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        summer.serves("dig")(for_ever if blocking else wait)
        sent = await client.submit_work("a hole", "dig")
        async with serving(summer):
            await until(client, sent.id, lambda work: work.status == "assigned" and begun.is_set())
            assert (await client.cancel_work(sent.id, why="deep enough")).status == "cancelled"
            await asyncio.wait_for(stopped.wait(), 30)
            assert (await client.get_work(sent.id)).status == "cancelled"
            after = await client.submit_work("enough", "dig")
            await ended(client, after.id)  # there is room again


@pytest.mark.parametrize(
    "heartbeat_s, wait_seconds", [(0.2, 30), (600, 1)], ids=["told by a beat", "told by a claim"]
)
async def test_an_agent_that_nobody_knows_any_more_registers_again(
    volatile_folder: Path, heartbeat_s: float, wait_seconds: int
) -> None:
    async with place(volatile_folder) as client:
        summer = agent(client, heartbeat_s=heartbeat_s, wait_seconds=wait_seconds)
        summer.serves("summarize")(lambda work: work.description)
        async with serving(summer):
            await _listed(client)
            assert (await client.deregister_agent(summer.guid)).deregistered
            await _listed(client)
            sent = await client.submit_work("kelp", "summarize")
            assert (await ended(client, sent.id)).result == "kelp"


async def test_an_agent_whose_entry_somebody_changed_says_again_what_it_can(volatile_folder: Path) -> None:
    async with place(volatile_folder) as client:
        summer = agent(client, wait_seconds=1)
        summer.serves("summarize")(lambda work: work.description)
        async with serving(summer):
            await _listed(client)
            await client.update_agent(summer.guid, EntryChanges(capabilities=("sing",)))
            await _listed(client)
            sent = await client.submit_work("kelp", "summarize")
            assert (await ended(client, sent.id)).result == "kelp"


async def _listed(client: RemoteClient) -> None:
    """Somebody is there who can summarize. Asking for work that there is not is a way to wait."""
    other = await client.register_agent("other", "test", capabilities=["nothing"])
    while not (await client.list_registry(capability="summarize")).agents:
        assert await client.claim_work(other.guid, wait_seconds=1) == ()


async def test_what_makes_no_sense_is_refused_before_anything_is_claimed(volatile_folder: Path) -> None:
    async with place(volatile_folder) as client:
        idle = agent(client, capabilities=["summarize"])
        async with idle:
            with pytest.raises(InvalidSetting, match="no function serves 'summarize'"):
                await idle.serve()
        idle.serves("summarize")(print)
        with pytest.raises(InvalidSetting, match="has a function already"):
            idle.serves("summarize")(print)
        too_many = agent(client, max_concurrent_tasks=10**6)
        too_many.serves("summarize")(print)
        async with too_many:
            with pytest.raises(InvalidPayload, match="10000"):
                await too_many.serve()


def test_the_same_handle_in_the_same_folder_is_the_same_agent() -> None:
    one, again, other = (ExternalAgent(handle=handle) for handle in ("a", "a", "b"))
    assert one.guid == again.guid != other.guid
    assert ExternalAgent(handle="a", guid="mine").guid == "mine"
