"""Goal: wiping the bucket loses no work and no result (I31). Method: a real server with its registry in NATS; somebody
else's client deletes the bucket while work is pending, assigned and in progress; whoever holds work goes on, whoever is
not known any more registers again."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.errors import NotFoundError

from holdfast.api.work_records import ClaimedWork, WorkView
from holdfast.client import RemoteClient, WorkAssignment
from holdfast.errors import NotFound
from holdfast.model.work import WorkStatus
from holdfast.registry.bucket import BUCKET
from tests.api.external_agents.place import Processes, agent, ended, facts, serving
from tests.api.registry.worlds import stranger, until, written
from tests.support.servers import NatsServer

pytestmark = pytest.mark.store("sqlite")


class Wiped(Processes):
    """A deployment whose registry is in this NATS."""

    nats = ""

    def serve(self) -> subprocess.Popen[bytes]:
        port = self.url.rpartition(":")[2] or "0"
        store = f"sqlite:///{self.folder / 'work.db'}"
        arguments = ("-m", "holdfast", "serve", "--port", port, "--store", store)
        api, found = self.start(*arguments, said=r"listening on (http://\S+);", HOLDFAST_NATS_URL=self.nats)
        self.url = found[1]
        return api


@asynccontextmanager
async def deployed(
    folder: Path, server: NatsServer
) -> AsyncIterator[tuple[Wiped, RemoteClient, subprocess.Popen[bytes]]]:
    there = Wiped(folder)
    there.nats = server.url
    try:
        api = await asyncio.to_thread(there.serve)
        async with RemoteClient(there.url) as client:
            await until(lambda: _is_well(client))
            yield there, client, api
    finally:
        there.close()


async def _is_well(client: RemoteClient) -> bool:
    return (await client.list_registry()).registry.connected


async def wipe(server: NatsServer) -> None:
    async with await nats.connect(server.url) as client:
        assert await client.jetstream().delete_key_value(BUCKET)


async def is_there(server: NatsServer, guid: str) -> bool:
    """Whether the bucket is there again, and the agent in it."""
    async with await nats.connect(server.url) as client:
        try:
            bucket = await client.jetstream().key_value(BUCKET)
            return (await bucket.get(guid)).value is not None
        except NotFoundError:
            return False


async def handles(client: RemoteClient) -> set[str]:
    return {one.handle for one in (await client.list_registry()).agents}


async def everything(client: RemoteClient) -> dict[str, WorkView]:
    return {one.id: one for one in (await client.list_work(limit=500)).items}


@pytest.mark.parametrize("api_dies", [False, True], ids=["api stays", "api dies too"])
async def test_wiping_the_bucket_loses_no_work_and_no_result(
    tmp_path: Path, server: NatsServer, api_dies: bool
) -> None:
    async with deployed(tmp_path, server) as (there, client, api):
        ant = await client.register_agent("ant", "test", capabilities=["count"], max_concurrent_tasks=2)
        async with stranger(server.url) as bucket:
            await bucket.put("bee", written("bee", capabilities=["count"], maxConcurrentTasks=9))
        sent = [(await client.submit_work(f"item {n}", "count")).id for n in range(5)]
        done, assigned, begun = [
            *(await client.claim_work(ant.guid, limit=2)),
            *(await client.claim_work("bee")),
        ]
        await client.complete_work(done.id, **right(done), result="before")
        await client.progress_work(begun.id, **right(begun), progress=30)
        before = await everything(client)
        assert set(before) == set(sent)

        if api_dies:
            there.kill(api)
        await wipe(server)
        if api_dies:
            await asyncio.to_thread(there.serve)

        after = await everything(client)
        assert after == before, "work is as it was, to the last field"
        assert after[done.id].result == "before"
        for one in (assigned, begun):
            await client.progress_work(one.id, **right(one), progress=60)
            view = await client.complete_work(one.id, **right(one), result="after")
            assert (view.status, view.result) == (WorkStatus.COMPLETED, "after")
        more = await client.submit_work("item 5", "count")

        await until(lambda: _is_well(client))
        with pytest.raises(NotFound):
            await client.heartbeat_agent("bee")  # nobody has put it there through us: it says so itself
        await client.register_agent(
            "bee", "coder", guid="bee", capabilities=["count"], max_concurrent_tasks=9
        )
        if api_dies:
            with pytest.raises(NotFound):
                await client.heartbeat_agent(ant.guid)
            await client.register_agent("ant", "test", guid=ant.guid, capabilities=["count"])
        await until(lambda: _lists(client, {"ant", "bee"}))
        rest = await client.claim_work("bee", limit=9)
        assert {one.id for one in rest} == {*sent, more.id} - {done.id, assigned.id, begun.id}
        for one in rest:
            await client.complete_work(one.id, **right(one), result="bee")
        for work_id in (*sent, more.id):
            assert (await facts(client, work_id))["job_completed"] == 1


def right(one: ClaimedWork) -> dict[str, Any]:
    return {"fence": one.fence, "lease_token": one.lease_token}


async def _lists(client: RemoteClient, expected: set[str]) -> bool:
    return await handles(client) == expected


async def test_an_agent_serves_on_while_its_bucket_is_wiped_again_and_again(
    tmp_path: Path, server: NatsServer
) -> None:
    """Wiped between any two of its words, it finds its way back by itself."""
    async with deployed(tmp_path, server) as (_, client, _api):
        begun: list[str] = []
        summer = agent(client, heartbeat_s=0.5)

        @summer.serves("count")
        async def count(work: WorkAssignment) -> str:
            begun.append(work.id)
            await work.progress(50)
            return work.description

        async with serving(summer):
            for n in range(8):
                sent = await client.submit_work(f"item {n}", "count")
                await wipe(server)
                view = await ended(client, sent.id)
                assert (view.result, view.assigned_to) == (f"item {n}", summer.guid)
                assert (await facts(client, sent.id))["job_completed"] == 1
                await until(lambda: is_there(server, summer.guid))
        assert len(begun) == len(set(begun)) == 8, "and nothing was begun twice"
