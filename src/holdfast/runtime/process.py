"""Everything in one process: a store, a committer, and a worker that drives the jobs of an application."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections.abc import Mapping
from typing import Any

from holdfast.engine import results
from holdfast.engine.committer import Committer
from holdfast.engine.processes import HostProcesses, Processes
from holdfast.engine.recover import prove_dead
from holdfast.engine.run import Desk, Program
from holdfast.errors import Unavailable
from holdfast.model.identity import identity_in, is_dead, worker_name
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobDraft
from holdfast.model.mail import MailDraft
from holdfast.model.states import MailKind
from holdfast.runtime.crashes import points_of
from holdfast.runtime.stores import open_store
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store
from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast.process")


class Process:
    """A worker of this process, and the store it works on. Open one with `opened`, close it when done."""

    def __init__(self, store: Store, worker: Worker) -> None:
        self.store = store
        self._worker = worker
        self._ids = RandomIds()
        self._working = asyncio.get_running_loop().create_task(worker.work(), name="holdfast-worker")

    async def start(self, draft: JobDraft) -> str:
        return (await self.store.jobs.submit(draft)).job_id

    async def result(self, job_id: str) -> Any:
        return await results.result(self.store, job_id)

    async def cancel(self, job_id: str, why: str) -> None:
        await self._tell(job_id, MailKind.CANCEL, name=why)

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

    def drain(self) -> None:
        """No more claims; what runs is finished or given back. Said twice: given back at once."""
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
    name: str | None = None,
    strict: bool = False,
) -> Process:
    """A process at work on the store at this address. What its dead neighbours held is free at once."""
    store = await open_store(address)
    ids, clock = RandomIds(), SystemClock()
    neighbours = Neighbours(HostProcesses(clock.boot()))
    desk = Desk(
        store,
        Committer(store.journal),
        clock,
        programs,
        strict=strict,
        chance=random.random,
        points=points_of(os.environ),
        gone=neighbours.is_dead,
    )
    await neighbours.bury(store)
    worker = Worker(
        desk,
        name or neighbours.my_name(socket.gethostname()),
        lambda: ids.new("claim"),
        concurrency=concurrency,
        now_and_then=lambda: neighbours.bury(store),
    )
    return Process(store, worker)


class Neighbours:
    """The other processes of this host, as far as they can be proven dead."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def my_name(self, label: str) -> str:
        here = self._processes.here()
        return f"{label}-{os.getpid()}" if here is None else worker_name(label, here)

    def is_dead(self, worker: str) -> bool:
        here, who = self._processes.here(), identity_in(worker)
        return here is not None and who is not None and is_dead(who, here, self._processes.seen(who.pid))

    async def bury(self, store: Store) -> None:
        """The leases of the dead are over; their jobs are there to be claimed."""
        try:
            dead = await prove_dead(store, self._processes)
        except Unavailable:
            return
        for name in dead:
            log.info("worker %s is dead; what it held is free", name)
