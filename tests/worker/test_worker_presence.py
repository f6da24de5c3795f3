"""Workers say that they are there: in their rounds, at their end, and when their process is killed."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.api.worker_drain import ask_to_drain
from holdfast.engine.recovery import RecoveryRules
from holdfast.errors import InvalidMove, StoreUnavailable
from holdfast.model.audit import ActDraft
from holdfast.model.jobs import JobDraft
from holdfast.model.states import Status
from holdfast.model.time import SECOND
from holdfast.model.worker_presence import BEAT_US, Presence, SeenWorker, WorkerOffer, WorkerState
from holdfast.runtime import open_store
from holdfast.runtime.app import App
from holdfast.store.contract import Store
from holdfast.store.interceptor import InterceptedStore
from holdfast.testing.conformance.harness import Backend
from holdfast.worker.heartbeat import WorkerHeartbeat
from holdfast.worker.maintenance import Maintenance, Neighbours
from tests.engine.shop import opened
from tests.support.fixtures.stores import STORES
from tests.worker.test_maintenance import Nobody

ANT = Presence(worker="ant", identity="ant-1")
ROUND_US = 5 * SECOND


# ── in its rounds ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_a_beat_every_ten_seconds_and_no_more_questions(backend: Backend) -> None:
    """What being listed costs an idle worker in half a minute: three calls. The figures may fall; they do not rise."""
    async with opened(backend) as shop:
        calls: Counter[str] = Counter()

        async def count(name: str, call: Any, args: Any, options: Any) -> Any:
            calls[name] += 1
            return await call(*args, **options)

        store = InterceptedStore(shop.store, count)
        herald = WorkerHeartbeat(store, shop.clock, ANT, lambda _identity: False)
        maintenance = Maintenance(
            store, shop.clock, Neighbours(Nobody()), RecoveryRules(), random.random, heartbeat=herald
        )
        for _ in range(6):
            await maintenance.run_round()
            shop.clock.advance(ROUND_US)
        once = {
            "namespaces.list": 1,
            "schedules.list": 1,
        }  # does a schedule stand where a wrong clock has put it?
        assert calls == {"presences.beat": 3, "schedules.due": 6, "work.find_unclaimed": 6} | once
        (seen,) = await shop.store.presences.list()
        assert seen.state is WorkerState.HERE


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_dead_neighbours_are_taken_off_the_list(backend: Backend) -> None:
    """At the next beat, whether or not they held anything; the living stay."""
    async with opened(backend) as shop:
        await shop.store.presences.beat(Presence(worker="dead", identity="gone"))
        await shop.store.presences.beat(Presence(worker="far", identity="elsewhere"))
        herald = WorkerHeartbeat(shop.store, shop.clock, ANT, lambda identity: identity == "gone")
        await herald.beat()
        assert [seen.presence.worker for seen in await shop.store.presences.list()] == ["ant", "far"]


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_a_store_that_is_away_hears_of_it_at_the_next_round(backend: Backend) -> None:
    async with opened(backend) as shop:
        away = True

        async def around(name: str, call: Any, args: Any, options: Any) -> Any:
            if away and name.startswith("presences."):
                raise StoreUnavailable("away")
            return await call(*args, **options)

        store = InterceptedStore(shop.store, around)
        herald = WorkerHeartbeat(store, shop.clock, ANT, lambda _identity: False)
        maintenance = Maintenance(
            store, shop.clock, Neighbours(Nobody()), RecoveryRules(), random.random, heartbeat=herald
        )
        await maintenance.run_round()
        await herald.drain()
        await herald.leave()
        assert not (await shop.store.presences.list()).items
        away = False
        shop.clock.advance(BEAT_US // 2)
        await maintenance.run_round()
        (seen,) = await shop.store.presences.list()
        assert seen.state is WorkerState.DRAINING
        await herald.leave()
        assert not (await shop.store.presences.list()).items


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_who_is_asked_to_drain_is_told_at_each_beat_until_it_does(backend: Backend) -> None:
    """Not before the next beat, and not any more once it drains: to be told twice is to be told to hurry."""
    async with opened(backend) as shop:
        told: list[str] = []
        ant = msgspec.structs.replace(ANT, offer=WorkerOffer(drains=True))
        herald = WorkerHeartbeat(shop.store, shop.clock, ant, lambda _identity: False)
        herald.on_drain(lambda: told.append("drain"))
        await herald.beat()
        line = ActDraft(act_id="a", what="worker.drain", who="ada", object="ant", reason="enough")
        await shop.store.presences.ask_to_drain("ant", line)
        await herald.beat()
        assert not told
        for times in (1, 2):
            shop.clock.advance(BEAT_US)
            await herald.beat()
            assert len(told) == times
        await herald.drain()
        shop.clock.advance(BEAT_US)
        await herald.beat()
        assert len(told) == 2
        (seen,) = await shop.store.presences.list()
        assert seen.state is WorkerState.DRAINING


# ── real processes ────────────────────────────────────────────────────────────────────────────────

APP = """
import asyncio
import pathlib
import holdfast as hf

tide = hf.App()

@tide.step(effect="read_only")
async def wait_for_ever() -> None:
    pathlib.Path("waiting").touch()
    await asyncio.Event().wait()

@tide.agent(queue="mail")
async def letters() -> str:
    return "sent"

@tide.agent
async def stuck() -> None:
    await wait_for_ever()

@tide.session(queue="talk")
async def clerk(turn: hf.Turn) -> str:
    return "hello"
"""


class Crew:
    """Workers as people start them, and the list as anybody sees it."""

    def __init__(self, folder: Path, url: str, store: Store) -> None:
        self._folder, self._url, self.store = folder, url, store
        self.processes: list[asyncio.subprocess.Process] = []

    async def start(self, *words: str, app: str = "app.py") -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "holdfast", "worker", app, "--store", self._url, *words, cwd=self._folder
        )
        self.processes.append(process)
        return process

    async def until(self, fits: Callable[[list[SeenWorker]], bool]) -> list[SeenWorker]:
        """The list, as soon as it is like this."""
        async with asyncio.timeout(60):
            while True:
                seen = list(await self.store.presences.list())
                if fits(seen):
                    return seen
                await self.store.wakeups.wait(frozenset({"nothing rings here"}), 0.05)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_database"))
    return f"sqlite:///{tmp_path / 'holdfast.db'}"


@asynccontextmanager
async def crew(folder: Path, url: str) -> AsyncIterator[Crew]:
    (folder / "app.py").write_text(APP, encoding="utf-8")
    store = await open_store(url)
    one = Crew(folder, url, store)
    try:
        yield one
    finally:
        for process in one.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        await store.close()


async def test_a_worker_is_listed_while_it_works(url: str, tmp_path: Path) -> None:
    """It says what it has code for, where it takes jobs from, what it holds; that it drains, and then it is gone."""
    async with crew(tmp_path, url) as one:
        job_id = (await one.store.jobs.submit(JobDraft(kind="stuck", input={}))).job_id
        process = await one.start("--concurrency", "3", "--capability", "gpu", app="app.py:tide")
        # Only a step that runs keeps a worker draining: a job that has not come to it yet is given back at once.
        await one.until(lambda _seen: (tmp_path / "waiting").exists())
        (seen,) = await one.until(lambda seen: len(seen) == 1 and seen[0].holds == 1)
        offer = seen.presence.offer
        assert (seen.presence.pid, seen.state) == (process.pid, WorkerState.HERE)
        assert offer.kinds == ("assistant", "clerk", "letters", "stuck")
        assert [(kind.name, kind.queue) for kind in offer.sessions] == [("clerk", "talk")]
        assert offer.queues == ("default", "mail", "talk")
        assert (offer.capabilities, offer.concurrency) == (("gpu",), 3)
        process.send_signal(signal.SIGTERM)
        await one.until(lambda seen: bool(seen) and seen[0].state is WorkerState.DRAINING)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert not (await one.store.presences.list()).items
        assert (await one.store.jobs.head(job_id)).status is Status.PENDING


async def test_a_worker_that_is_asked_drains_as_on_a_signal(url: str, tmp_path: Path) -> None:
    """Somebody who has nothing but the store asks. The worker takes nothing more, is listed as draining while its call
    goes on, and ends with status 0 with its job given back; its neighbour stays."""
    async with crew(tmp_path, url) as one:
        process = await one.start("--name", "ant")
        await one.until(lambda seen: len(seen) == 1)
        job_id = (await one.store.jobs.submit(JobDraft(kind="stuck", input={}))).job_id
        await one.until(lambda _seen: (tmp_path / "waiting").exists())
        await one.start("--name", "bee", "--queue", "mail")
        await one.until(lambda seen: [who.presence.worker for who in seen] == ["ant", "bee"])
        await ask_to_drain(one.store, "ant", who="ada", why="the machine is needed", operation_id="op-1")
        await one.until(lambda seen: seen[0].state is WorkerState.DRAINING)
        process.send_signal(signal.SIGTERM)  # and now in a hurry: the call would never end
        assert await process.wait() == 0
        assert [who.presence.worker for who in await one.store.presences.list()] == ["bee"]
        assert (await one.store.jobs.head(job_id)).status is Status.PENDING


async def test_an_application_that_works_by_itself_is_not_asked(tmp_path: Path) -> None:
    """Drained, its own calls would wait for ever for somebody to drive them."""
    app = App(f"sqlite:///{tmp_path / 'holdfast.db'}")
    async with app.running() as process:
        with pytest.raises(InvalidMove):
            await ask_to_drain(process.store, process.name, who="ada", why="enough", operation_id="op-1")


async def test_a_killed_worker_is_taken_off_the_list_by_its_neighbour(url: str, tmp_path: Path) -> None:
    async with crew(tmp_path, url) as one:
        victim = await one.start("--name", "victim")
        await one.until(lambda seen: [who.presence.worker for who in seen] == ["victim"])
        victim.kill()
        await victim.wait()
        (left,) = await one.store.presences.list()
        assert left.presence.worker == "victim", "it could not say goodbye"
        await one.start("--name", "heir")
        await one.until(lambda seen: [who.presence.worker for who in seen] == ["heir"])


async def test_a_worker_takes_only_from_its_queues(url: str, tmp_path: Path) -> None:
    """Two jobs of the same worker's kinds, in two queues: the one of its queue is done, the other stays."""
    async with crew(tmp_path, url) as one:
        other = (await one.store.jobs.submit(JobDraft(kind="letters", input={}, priority=10))).job_id
        mine = (await one.store.jobs.submit(JobDraft(kind="letters", input={}, queue="mail"))).job_id
        await one.start("--queue", "mail")
        async with asyncio.timeout(60):
            while (await one.store.jobs.head(mine)).status is not Status.COMPLETED:
                await one.store.wakeups.wait(frozenset({f"job:{mine}"}), 1)
        assert (await one.store.jobs.head(other)).status is Status.PENDING
        (seen,) = await one.store.presences.list()
        assert seen.presence.offer.queues == ("mail",)
