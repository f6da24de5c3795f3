"""An agent is cut off from the server while it holds work: the work is another's, and what the first one says late is
refused. Here the link is a proxy; `test_hosts.py` does it with hosts and a cable."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import cast

import pytest

from holdfast.client import ExternalAgent, RemoteClient, WorkAssignment
from holdfast.client.local_token import find_token
from holdfast.engine.verify.verify import Inspectable, verify
from holdfast.model.agent_registry import AgentStatus
from holdfast.runtime import open_store
from holdfast.server.settings import Settings
from tests.api.external_agents.link import Link, linked
from tests.api.external_agents.place import LEASE_S, agent, ended, facts, place, serving
from tests.api.registry.worlds import until

pytestmark = pytest.mark.store("sqlite")


def far_agent(link: Link, client: RemoteClient, *, wait_seconds: int = 2) -> ExternalAgent:
    """At the other end of the link."""
    link.to = int(client.url.rpartition(":")[2])
    return ExternalAgent(
        f"http://127.0.0.1:{link.port}",
        handle="far",
        key=find_token(client.url),
        lease_seconds=LEASE_S,
        wait_seconds=wait_seconds,
        heartbeat_s=0.5,
        chance=random.Random(6).random,
    )


async def status_of(client: RemoteClient, guid: str) -> AgentStatus:
    (found,) = [one for one in (await client.list_registry()).agents if one.guid == guid]
    return found.status


async def is_(client: RemoteClient, guid: str, status: AgentStatus) -> bool:
    return await status_of(client, guid) is status


async def clean(folder: Path) -> None:
    store = await open_store(f"sqlite:///{folder / 'work.db'}")
    try:
        assert list((await verify(cast("Inspectable", store))).violations) == []
    finally:
        await store.close()


async def test_work_of_an_agent_that_is_cut_off_is_finished_by_another(
    volatile_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: one completion, and the agent that was away is of use again. Method: the link is cut while its function
    runs; its lease runs out; an agent beside the server completes the work; the first one's result runs into the cut
    and arrives when it is healed."""
    begun, go = asyncio.Event(), asyncio.Event()
    async with (
        linked() as link,
        place(volatile_folder, Settings(hosts=(f"127.0.0.1:{link.port}",))) as client,
    ):
        far, near = far_agent(link, client), agent(client, "near")

        @far.serves("summarize")
        async def slowly(work: WorkAssignment) -> str:
            begun.set()
            await go.wait()
            return f"far: {work.description}"

        near.serves("summarize")(lambda work: f"near: {work.description}")
        sent = await client.submit_work("kelp", "summarize")
        async with serving(far):
            await begun.wait()
            link.cut()
            async with serving(near):
                done = await ended(client, sent.id)
                assert (done.result, done.assigned_to) == ("near: kelp", near.guid)
            go.set()
            await until(lambda: link.stuck["/complete"] > 0)
            await until(lambda: is_(client, far.guid, AgentStatus.OFFLINE))
            assert link.answered[409] == 0
            link.heal()
            more = await client.submit_work("more kelp", "summarize")
            assert (await ended(client, more.id)).result == "far: more kelp"
            await until(lambda: is_(client, far.guid, AgentStatus.ONLINE))
        assert link.answered[409] > 0, "it was told"
        assert f"lost the lease of work {sent.id}" in caplog.text
        assert await client.get_work(sent.id) == done, "and nothing has changed"
        told = await facts(client, sent.id)
        assert told["job_completed"] == 1
        assert told["job_claimed"] == 2
    await clean(volatile_folder)


async def test_a_grant_that_runs_into_the_cut_is_not_begun_late(
    volatile_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: an agent begins nothing that is another's by now. Method: the link is cut while its claim waits; the server
    grants it work that comes then, and the answer arrives when somebody else has done it."""
    begun: list[str] = []
    async with (
        linked() as link,
        place(volatile_folder, Settings(hosts=(f"127.0.0.1:{link.port}",))) as client,
    ):
        far, near = far_agent(link, client, wait_seconds=30), agent(client, "near")

        @far.serves("summarize")
        async def summarize(work: WorkAssignment) -> str:
            begun.append(work.id)
            return "far"

        near.serves("summarize")(lambda _: "near")
        async with serving(far):
            await until(lambda: link.passed["/claim"] > 0)
            for _ in range(5):
                await client.stats()  # and the server has it, and waits
            link.cut()
            sent = await client.submit_work("kelp", "summarize")
            await until(lambda: _granted(client, sent.id, far.guid))
            async with serving(near):
                assert (await ended(client, sent.id)).result == "near"
            link.heal()
            more = await client.submit_work("more kelp", "summarize")
            assert (await ended(client, more.id)).result == "far"
        assert begun == [more.id]
        assert f"lost the lease of work {sent.id}" in caplog.text
        assert (await facts(client, sent.id))["job_completed"] == 1
    await clean(volatile_folder)


async def _granted(client: RemoteClient, work_id: str, guid: str) -> bool:
    return (await client.get_work(work_id)).assigned_to == guid
