"""Everything in one process: a store, a committer, and a worker that drives the jobs of an application."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.agents.threads import in_thread
from holdfast.engine import results
from holdfast.engine.checkpoints import Inspector
from holdfast.engine.committer import Committer
from holdfast.engine.desk import Desk, Program
from holdfast.engine.meter import SILENT, Meter
from holdfast.engine.processes import HostProcesses
from holdfast.engine.recover import Rules
from holdfast.engine.schedules import stand
from holdfast.engine.streams import Scribe
from holdfast.engine.watching import watch
from holdfast.model.evidence import EvidencePack, Result
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobDraft
from holdfast.model.limits import ATTEMPTS_MAX
from holdfast.model.mail import MailDraft
from holdfast.model.presence import Offer, Presence
from holdfast.model.redaction import redacted
from holdfast.model.schedule import Schedule
from holdfast.model.states import MailKind
from holdfast.model.streams import AttemptSuperseded, Chunk
from holdfast.runtime.crashes import crashing, points_of
from holdfast.runtime.herald import Herald
from holdfast.runtime.rounds import Neighbours, Rounds
from holdfast.runtime.stores import open_store
from holdfast.runtime.tracing import watched
from holdfast.store.address import parse
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store
from holdfast.worker.watchdog import Watchdog
from holdfast.worker.worker import Worker


class Process:
    """A worker of this process, and the store it works on. Open one with `opened`, close it when done."""

    def __init__(
        self, store: Store, worker: Worker, scribe: Scribe, rounds: Rounds, herald: Herald | None = None
    ) -> None:
        self.store = store
        self.rounds = rounds
        self._worker = worker
        self._scribe = scribe
        self._herald = herald
        self._telling: asyncio.Task[None] | None = None
        self._ids = RandomIds()
        self._working = asyncio.get_running_loop().create_task(self._work(), name="holdfast-worker")

    async def _work(self) -> None:
        try:
            await self._worker.work()
        finally:
            if self._telling is not None:
                await asyncio.wait([self._telling])  # else it could be listed again after it has left
            if self._herald is not None:
                await self._herald.leave()

    @property
    def name(self) -> str:
        """The worker's name, as journals have it."""
        return self._worker.name

    def now_us(self) -> int:
        return SystemClock().wall_us()

    async def start(self, draft: JobDraft) -> str:
        return (await self.store.jobs.submit(draft)).job_id

    async def result(self, job_id: str) -> Any:
        return await results.result(self.store, job_id)

    async def cancel(self, job_id: str, why: str) -> None:
        await self._tell(job_id, MailKind.CANCEL, name=redacted(why))

    async def signal(self, job_id: str, name: str, body: Any) -> None:
        await self._tell(job_id, MailKind.SIGNAL, name=name, body=body)

    async def _tell(self, job_id: str, kind: MailKind, name: str, body: Any = None) -> None:
        await self.store.post.send(
            MailDraft(
                job_id=job_id,
                kind=kind,
                operation_id=self._ids.new("op"),
                name=name,
                body=body,
                sender=self._worker.name,
            )
        )

    def stream(
        self, job_id: str, after: str | None, stream: str | None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        return watch(self.store, job_id, after=after, stream=stream, scribe=self._scribe)

    def heed(self, drain: Callable[[], None]) -> None:
        """`drain` is called once if somebody asks this worker to drain, unless it drains already."""
        if self._herald is not None:
            self._herald.asked_to_drain = lambda: drain() if self._telling is None else None

    def drain(self) -> None:
        """No more claims; what runs is finished or given back. Said twice: given back at once."""
        if self._telling is None and self._herald is not None:
            self._telling = asyncio.get_running_loop().create_task(
                self._herald.drain(), name="holdfast-draining"
            )
        self._worker.drain()

    async def done(self) -> None:
        """The worker has ended by itself, after a drain."""
        await asyncio.wait([self._working])

    async def close(self) -> None:
        """What ran was finished or given back, and nothing is held open."""
        self._worker.drain(at_once=True)
        await asyncio.wait([self._working])
        await self.store.close()


async def opened(
    programs: Mapping[str, Program],
    address: str,
    *,
    concurrency: int = 16,
    offer: Offer | None = None,
    name: str | None = None,
    strict: bool = False,
    schedules: Sequence[Schedule] = (),
    meter: Meter = SILENT,
) -> Process:
    """A process at work on the store at this address: it takes what it offers, and is listed. What its dead neighbours
    held is free at once, and the schedules stand."""
    offer = Offer(kinds=tuple(sorted(programs)), concurrency=concurrency) if offer is None else offer
    points = points_of(os.environ)
    meter = watched(os.environ, meter)
    store = crashing(await open_store(address), os.environ)
    ids, clock = RandomIds(), SystemClock()
    neighbours = Neighbours(HostProcesses(clock.boot()))
    named = name or neighbours.my_name(socket.gethostname())
    scribe = Scribe(store.streams)
    desk = Desk(
        store,
        Committer(store.journal, meter),
        clock,
        programs,
        strict=strict,
        chance=random.random,
        points=points,
        gone=neighbours.is_dead,
        inspect=_inspector(Path.cwd(), _own_file(address)),
        scribe=scribe,
        meter=meter,
    )
    rules = Rules(
        takeovers_max=desk.takeovers_max,
        failed_attempts_max=ATTEMPTS_MAX,  # a job that has used up its attempts is a dead letter already
        by=f"sweep of {named}",
    )
    presence = Presence(
        worker=named,
        identity=neighbours.my_identity() or ids.new("process"),
        host=socket.gethostname(),
        pid=os.getpid(),
        offer=offer,
    )
    herald = Herald(store, clock, presence, neighbours.is_dead)
    rounds = Rounds(store, clock, neighbours, rules, meter, herald, capabilities=offer.capabilities)
    await stand(store, clock, schedules)
    await rounds.go()
    worker = Worker(
        desk,
        named,
        lambda: ids.new("claim"),
        queues=offer.queues,
        concurrency=offer.concurrency,
        now_and_then=rounds.go,
        watchdog=Watchdog(),
        also=lambda: rounds.unwanted,
    )
    return Process(store, worker, scribe, rounds, herald)


def _inspector(base_path: Path, own_file: Path | None) -> Inspector:
    """Who looks whether evidence holds; loaded when there is some."""

    async def inspect(pack: EvidencePack) -> Sequence[Result]:
        from holdfast.engine.evidence import Looker

        looker = Looker(base_path, own_file=own_file)
        return await in_thread(lambda: looker.look_at_all(pack))

    return inspect


def _own_file(address: str) -> Path | None:
    """The store's file, if it is one: nobody opens it but through our own library."""
    place = parse(address)
    return place.path if place.kind == "sqlite" else None
