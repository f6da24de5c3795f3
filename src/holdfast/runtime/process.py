"""Everything in one process: a store, a committer, and a worker that drives the jobs of an application.

A process submits, drives or serves:

    submits    `agent.start(…)`: jobs are stored; nothing is claimed, and there is no worker in this process
    drives     `await agent(…)`: a worker that claims these jobs, their descendants and what stands before them
    serves     `app.running()`, `holdfast worker`: a worker that is listed and claims whatever it has code for
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.agents.threads import in_thread
from holdfast.engine import job_results
from holdfast.engine.audit_hook import OnUndurable
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.host_processes import HostProcesses
from holdfast.engine.recovery import Rules
from holdfast.engine.runner_config import Program, RunnerConfig
from holdfast.engine.schedules import stand
from holdfast.engine.streams import StreamWriter, watch
from holdfast.engine.task_scopes import create_detached_task
from holdfast.engine.telemetry import SILENT, Telemetry
from holdfast.errors import HoldfastError
from holdfast.model.evidence import EvidenceSet, Inspector, Result
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobDraft
from holdfast.model.limits import ATTEMPTS_MAX
from holdfast.model.mailbox import MailDraft
from holdfast.model.redaction import redact
from holdfast.model.schedule import Schedule
from holdfast.model.states import MailKind, Status
from holdfast.model.streams import AttemptSuperseded, Chunk
from holdfast.model.worker_presence import Presence, WorkerOffer, WorkerState
from holdfast.runtime.crash_injection import crashing, points_of
from holdfast.runtime.isolation import ChildProcesses
from holdfast.runtime.lease_setup import make_lease
from holdfast.runtime.store_opener import open_store
from holdfast.runtime.tracing import add_spans
from holdfast.store.address import parse
from holdfast.store.clock import Clock
from holdfast.store.contract import Store
from holdfast.worker.heartbeat import WorkerHeartbeat
from holdfast.worker.maintenance import Maintenance, Neighbours
from holdfast.worker.worker import Worker

if TYPE_CHECKING:
    from holdfast.engine.audit_hook import IoMonitor

UNSERVED_S: Final = 2.0
"""How long a result is waited for before it is checked that a worker serves the job."""

log = logging.getLogger("holdfast")


def default_worker_command(_kind: str) -> str:
    return "holdfast worker YOUR_MODULE"


class Process:
    """The store of this process, and the worker that it may have. Open one with `open_process`, close it when done."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        scribe: StreamWriter,
        maintenance: Maintenance,
        herald: WorkerHeartbeat | None = None,
        *,
        serving: bool = True,
        schedules: Sequence[Schedule] = (),
        worker_command: Callable[[str], str] = default_worker_command,
    ) -> None:
        self.store = store
        self.maintenance = maintenance
        self._worker = worker
        self._scribe = scribe
        self._herald = herald
        self._schedules = schedules
        self._worker_command = worker_command
        self._telling: asyncio.Task[None] | None = None
        self._ids = RandomIds()
        self._serving = self.maintenance.serving = serving
        self._warned: set[tuple[str, str]] = set()
        self._working: asyncio.Task[None] | None = None
        if serving:
            self._begin()

    def _begin(self) -> None:
        if self._working is None:
            loop = asyncio.get_running_loop()
            self._working = create_detached_task(loop, self._work(), "holdfast-worker")

    async def _work(self) -> None:
        try:
            await self._worker.work()
        finally:
            if self._telling is not None:
                await asyncio.wait([self._telling])  # else it could be listed again after it has left
            if self._herald is not None and self._serving:
                await self._herald.leave()

    async def serve(self) -> None:
        """This process is a worker now: it is listed, its schedules stand, what its dead neighbours held is free, and
        it claims every job that it has code for."""
        if self._serving:
            return
        self._serving = self.maintenance.serving = True
        await stand(self.store, self._schedules)
        await self.maintenance.run_round()
        self._worker.serve()
        self._begin()

    @property
    def name(self) -> str:
        """The worker's name, as journals have it."""
        return self._worker.name

    def now_us(self) -> int:
        return self.store.clock.wall_us()

    async def start(self, draft: JobDraft) -> str:
        return (await self.store.jobs.submit(draft)).job_id

    async def result(self, job_id: str) -> Any:
        if self._worker.is_driving(job_id):
            return await job_results.result(self.store, job_id)
        loop = asyncio.get_running_loop()
        checks: list[asyncio.Task[None]] = []
        timer = loop.call_later(
            UNSERVED_S,
            lambda: checks.append(
                create_detached_task(loop, self._warn_unserved(job_id), "holdfast-unserved")
            ),
        )
        try:
            return await job_results.result(self.store, job_id)
        finally:
            timer.cancel()
            for check in checks:
                check.cancel()

    async def drive(self, job_id: str) -> Any:
        """What the job returned. Until then this process drives it, its descendants, and what stands before it in its
        session; another process that has it already is left to it."""
        if self._serving:  # the job is claimed like any other
            return await self.result(job_id)
        with self._worker.drive(job_id):
            if self._working is None:
                self._begin()
                await self.maintenance.run_round()  # a job whose driver was killed is free at once
            return await self.result(job_id)

    async def _warn_unserved(self, job_id: str) -> None:
        """A job that waits for a worker while none is there is reported with the command that starts one, once for each
        kind and queue."""
        try:
            head = await self.store.jobs.head(job_id)
            about = (head.kind, head.queue)
            if self._worker.is_driving(job_id):
                return
            if head.status not in {Status.PENDING, Status.WAITING} or await self._is_served(*about):
                return
        except HoldfastError as error:
            log.warning("cannot look for a worker: %s", error)
            return
        if about in self._warned:  # another wait was quicker
            return
        self._warned.add(about)
        log.warning(
            "job %s is waiting: no running worker serves %r in queue %r. Start one: %s",
            job_id,
            *about,
            self._worker_command(head.kind),
        )

    async def _is_served(self, kind: str, queue: str) -> bool:
        cursor: str | None = None
        while True:
            page = await self.store.presences.list(cursor=cursor)
            for worker in page.items:
                offer = worker.presence.offer
                if worker.state is WorkerState.HERE and kind in offer.kinds and queue in offer.queues:
                    return True
            if page.next is None:
                return False
            cursor = page.next

    async def cancel(self, job_id: str, why: str) -> None:
        await self._tell(job_id, MailKind.CANCEL, name=redact(why))

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

    def set_drain_handler(self, drain: Callable[[], None]) -> None:
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

    async def mark_done(self) -> None:
        """The worker has ended by itself, after a drain."""
        if self._working is not None:
            await asyncio.wait([self._working])

    async def close(self) -> None:
        """What ran was finished or given back, and nothing is held open."""
        self._worker.drain(at_once=True)
        await self.mark_done()
        await self.store.close()


class Foreground(Process):
    """A process that drives every job whose result is awaited, for commands that run a job before one's eyes."""

    async def result(self, job_id: str) -> Any:
        if self._worker.is_driving(job_id):
            return await super().result(job_id)
        return await self.drive(job_id)


async def open_process(
    programs: Mapping[str, Program],
    address: str,
    *,
    concurrency: int = 16,
    offer: WorkerOffer | None = None,
    name: str | None = None,
    strict: bool = False,
    schedules: Sequence[Schedule] = (),
    meter: Telemetry = SILENT,
    process_class: type[Process] = Process,
    serving: bool = True,
    worker_command: Callable[[str], str] = default_worker_command,
    ends_when_blocked: bool = False,
    isolated_command: Sequence[str] | None = None,
    on_undurable: OnUndurable = "ignore",
) -> Process:
    """A process on the store at this address. `serving`: it is a worker at once; otherwise it claims nothing until it
    is told to drive a job or to serve. `worker_command` gives the command that starts a worker for a kind.
    `isolated_command` starts a process that drives one job alone, with the same application; without it suspects are
    driven here if they are to be driven here, and are otherwise left to other workers. `ends_when_blocked`: the process
    is ended when code blocks its event loop for too long; an application that works in its own process lets its jobs
    go instead. `on_undurable`: what happens when job code does something outside without a tool."""
    offer = WorkerOffer(kinds=tuple(sorted(programs)), concurrency=concurrency) if offer is None else offer
    points_of(os.environ)  # a crash that cannot be meant is refused before a store is opened
    meter = add_spans(os.environ, meter)
    store = crashing(await open_store(address), os.environ)
    ids, clock = RandomIds(), store.clock
    neighbours = Neighbours(HostProcesses(clock.boot()))
    named = name or neighbours.my_name(socket.gethostname())
    scribe = StreamWriter(store.streams)
    how = RunOptions(strict=strict, on_undurable=on_undurable, isolates=isolated_command is not None)
    config = make_desk(store, programs, address, neighbours, scribe, meter, how)
    isolation = isolated_command and ChildProcesses(store, clock, address, isolated_command, named, meter)
    rules = Rules(failed_attempts_max=ATTEMPTS_MAX, by=f"sweep of {named}")
    herald = _herald(store, clock, neighbours, named, offer)
    lease = make_lease(named, address, store, neighbours, meter, ends_when_blocked=ends_when_blocked)
    maintenance = Maintenance(
        *(store, clock, neighbours, rules, random.random, meter, herald),
        capabilities=offer.capabilities,
        leaves_suspects=isolated_command is None,
    )
    worker = Worker(
        config,
        named,
        lambda: ids.new("claim"),
        queues=offer.queues,
        concurrency=offer.concurrency,
        maintenance=maintenance.run,
        renewal=lease.renewal,
        renewal_thread=lease.thread,
        watchdog=lease.watchdog,
        also=lambda: maintenance.unwanted,
        serving=False,
        isolation=isolation or None,
        leaves_suspects=isolation is None,
    )
    process = process_class(
        store,
        worker,
        scribe,
        maintenance,
        herald,
        serving=False,
        schedules=schedules,
        worker_command=worker_command,
    )
    if serving:
        await process.serve()
    return process


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs are driven in a process, as its application or its command line says."""

    strict: bool = False
    on_undurable: OnUndurable = "ignore"
    isolates: bool = False


def make_desk(
    store: Store,
    programs: Mapping[str, Program],
    address: str,
    neighbours: Neighbours,
    scribe: StreamWriter,
    meter: Telemetry,
    how: RunOptions,
) -> RunnerConfig:
    """What the runs of this process need, on the store's clock and with the host's randomness."""
    return RunnerConfig(
        store,
        GroupCommit(store.journal, meter),
        store.clock,
        programs,
        strict=how.strict,
        isolates=how.isolates,
        chance=random.random,
        points=points_of(os.environ),
        gone=neighbours.is_dead,
        inspect=_inspector(Path.cwd(), _own_file(address)),
        scribe=scribe,
        meter=meter,
        io_monitor=_make_io_monitor(how.on_undurable),
    )


def _herald(
    store: Store, clock: Clock, neighbours: Neighbours, worker: str, offer: WorkerOffer
) -> WorkerHeartbeat:
    """Who says for this process that it is there, once it serves."""
    presence = Presence(
        worker=worker,
        identity=neighbours.my_identity() or RandomIds().new("process"),
        host=socket.gethostname(),
        pid=os.getpid(),
        offer=offer,
    )
    return WorkerHeartbeat(store, clock, presence, neighbours.is_dead)


def _inspector(base_path: Path, own_file: Path | None) -> Inspector:
    """Who looks whether evidence holds; loaded when there is some."""

    async def inspect(pack: EvidenceSet) -> Sequence[Result]:
        from holdfast.engine.evidence import Looker

        looker = Looker(base_path, own_file=own_file)
        return await in_thread(lambda: looker.look_at_all(pack))

    return inspect


def _make_io_monitor(on_undurable: OnUndurable) -> IoMonitor | None:
    """What looks at job code; loaded where it is wanted."""
    if on_undurable == "ignore":
        return None
    from holdfast.engine.audit_hook import make_io_monitor

    return make_io_monitor(on_undurable)


def _own_file(address: str) -> Path | None:
    """The store's file, if it is one: nobody opens it but through our own library."""
    place = parse(address)
    return place.path if place.kind == "sqlite" else None
