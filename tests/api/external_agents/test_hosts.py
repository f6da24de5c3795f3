"""Goal: as `test_partition.py`, between hosts. Method: the API, NATS and an agent on one host, another agent on the
other; the cable is pulled while that one holds work, for longer than its lease, and plugged in again."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from holdfast.api.work_records import WorkView
from holdfast.client.in_process import EmbeddedClient
from holdfast.client.keys import create_key
from holdfast.engine.verify.verify import Inspectable, verify
from holdfast.model.access import Role
from holdfast.model.ids import RandomIds
from holdfast.runtime import open_store
from holdfast.store.clock import SystemClock
from tests.api.external_agents.hosts import Hosts, hosts
from tests.api.external_agents.place import Processes, processes
from tests.api.registry.worlds import until
from tests.support.project import ROOT
from tests.support.servers import NatsServer


class NatsOn(NatsServer):
    """A nats-server on this host."""

    def __init__(self, *within: str) -> None:
        super().__init__()
        self._within = within

    def _launch(self) -> None:
        configuration = self.folder / "nats.conf"
        configuration.write_text(json.dumps(self._configuration()))
        command = [*self._within, str(self.binary.path), "-c", str(configuration)]
        self._run(command, os.environ, self._says_port)


class Place:
    """The API and NATS on one host, agents on either, and somebody who looks into the store."""

    def __init__(self, net: Hosts, there: Processes, client: EmbeddedClient, key: str) -> None:
        self.net = net
        self.there = there
        self.client = client
        self.key = key
        self.url = f"http://{net.address}:8080"

    async def serve(self, store: str, nats: str) -> None:
        arguments = ("--host", self.net.address, "--port", "8080", "--insecure", "--store", store)
        await asyncio.to_thread(
            self.there.start,
            *("-m", "holdfast", "serve", *arguments),
            said="connected to NATS",
            within=self.net.on(self.net.here),
            HOLDFAST_NATS_URL=nats,
        )

    async def agent(self, host: str, handle: str, *more: str) -> subprocess.Popen[bytes]:
        started, _ = await asyncio.to_thread(
            self.there.start,
            *(str(ROOT / "tests/api/external_agents/summer.py"), self.url, handle, *more),
            said="serves",
            within=self.net.on(host),
            HOLDFAST_API_KEY=self.key,
        )
        return started

    async def hear(self, process: subprocess.Popen[bytes], said: str) -> None:
        await asyncio.to_thread(self.there.hear, process, self.there.log_of(process), said)

    async def completed(self, work_id: str) -> WorkView:
        async def is_over() -> bool:
            return (await self.client.get_work(work_id)).over

        await until(is_over, 60)
        return await self.client.get_work(work_id)


@asynccontextmanager
async def placed(folder: Path) -> AsyncIterator[Place]:
    address = f"sqlite:///{folder / 'work.db'}"
    with hosts() as net, processes(folder) as there, NatsOn(*net.on(net.here)) as nats:
        store = await open_store(address)
        try:
            _, key = await create_key(store, [Role.WORKER], name="agents", who="test", why="a test")
            place = Place(net, there, EmbeddedClient(store, SystemClock(), RandomIds()), key)
            await place.serve(address, nats.url)
            yield place
            there.close()
            assert list((await verify(cast("Inspectable", store))).violations) == []
        finally:
            await store.close()


@pytest.mark.chaos
@pytest.mark.store("sqlite")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["cable", "answers"])
async def test_an_agent_on_another_host_is_cut_off_while_it_holds_work(tmp_path: Path, how: str) -> None:
    gate = tmp_path / "gate"
    async with placed(tmp_path) as one:
        far = await one.agent(one.net.there, "far", "--hold", str(gate))
        sent = await one.client.submit_work("Kelp. Much of it.", "summarize")
        await one.hear(far, f"begun {sent.id} 1")

        one.net.cut(how)
        near = await one.agent(one.net.here, "near")
        done = await one.completed(sent.id)
        assert done.result == {"summary": "Kelp", "by": "near"}
        one.there.kill(near)
        await one.hear(far, f"work {sent.id} renewal: no answer")
        gate.touch()  # it has a result now, and nobody to tell

        one.net.heal(how)
        await one.hear(far, f"lost the lease of work {sent.id}")
        more = await one.client.submit_work("More. And more.", "summarize")
        assert (await one.completed(more.id)).result == {"summary": "More", "by": "far"}
        assert await one.client.get_work(sent.id) == done
        told = Counter(event.type for event in await one.client.events(sent.id))
        assert told["job_completed"] == 1
        assert told["job_claimed"] == 2
