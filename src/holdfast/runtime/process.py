"""Process: a store, a group commit, and a worker that runs the jobs of an application, in one process.

A process submits, drives or serves:

    submits    `agent.start(…)`: jobs are stored; nothing is claimed, and there is no worker in this process
    drives     `await agent(…)`: a worker that claims these jobs, their descendants and the jobs before them
    serves     `app.running()`, `holdfast worker`: a worker that is listed and claims every job it has code for
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
from holdfast.engine.recovery import RecoveryRules
from holdfast.engine.runner_config import Program, RunnerConfig
from holdfast.engine.schedules import register_schedules
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
from holdfast.runtime.crash_injection import add_crash_points, parse_points
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
"""How long a caller waits for a result before the process checks that a worker serves the job."""

log = logging.getLogger("holdfast")


def default_worker_command(_kind: str) -> str:
    return "holdfast worker YOUR_MODULE"


class Process:
    """The store of this process, and its worker if it has one. Open one with `open_process`, close it when done."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        scribe: StreamWriter,
        maintenance: Maintenance,
        heartbeat: WorkerHeartbeat | None = None,
        *,
        serving: bool = True,
        schedules: Sequence[Schedule] = (),
        worker_command: Callable[[str], str] = default_worker_command,
    ) -> None:
        self.store = store
        self.maintenance = maintenance
        self._worker = worker
        self._scribe = scribe
        self._heartbeat = heartbeat
        self._schedules = schedules
        self._worker_command = worker_command
        self._telling: asyncio.Task[None] | None = None
        self._ids = RandomIds()
        self._serving = serving
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
                await asyncio.wait([self._telling])  # otherwise it could be listed again after it has left
            if self._heartbeat is not None and self._serving:
                await self._heartbeat.leave()

    async def serve(self) -> None:
        """Makes this process a worker: it is listed, its schedules are registered, the leases of its dead neighbours
        are expired, and it claims every job that it has code for."""
        if self._serving:
            return
        self._serving = True
        self.maintenance.serve()
        await register_schedules(self.store, self._schedules)
        await self.maintenance.run_round()
        self._worker.serve()
        self._begin()

    @property
    def name(self) -> str:
        """The worker's name, as in journals."""
        return self._worker.name

    def now_us(self) -> int:
        return self.store.clock.wall_us()

    async def start(self, draft: JobDraft) -> str:
        return (await self.store.jobs.submit(draft)).job_id

    async def result(self, job_id: str) -> Any:
        if self._worker.is_driving(job_id):
            return await job_results.wait_for_result(self.store, job_id)
        loop = asyncio.get_running_loop()
        checks: list[asyncio.Task[None]] = []
        timer = loop.call_later(
            UNSERVED_S,
            lambda: checks.append(
                create_detached_task(loop, self._warn_unserved(job_id), "holdfast-unserved")
            ),
        )
        try:
            return await job_results.wait_for_result(self.store, job_id)
        finally:
            timer.cancel()
            for check in checks:
                check.cancel()

    async def drive(self, job_id: str) -> Any:
        """Returns the job's result. Until then this process runs the job, its descendants, and the jobs before it in
        its session; if another process holds it already, that one runs it."""
        if self._serving:  # the job is claimed like any other
            return await self.result(job_id)
        with self._worker.drive(job_id):
            if self._working is None:
                self._begin()
                await self.maintenance.run_round()  # a job whose process was killed is claimable at once
            return await self.result(job_id)

    async def _warn_unserved(self, job_id: str) -> None:
        """Reports a job that waits for a worker while there is none, with the command that starts one, once for each
        kind and queue."""
        try:
            head = await self.store.jobs.head(job_id)
            kind_and_queue = (head.kind, head.queue)
            if self._worker.is_driving(job_id):
                return
            if head.status not in {Status.PENDING, Status.WAITING} or await self._is_served(*kind_and_queue):
                return
        except HoldfastError as error:
            log.warning("cannot look for a worker: %s", error)
            return
        if kind_and_queue in self._warned:  # another caller was quicker
            return
        self._warned.add(kind_and_queue)
        log.warning(
            "job %s is waiting: no running worker serves %r in queue %r. Start one: %s",
            job_id,
            *kind_and_queue,
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
        await self._send_mail(job_id, MailKind.CANCEL, name=redact(why))

    async def signal(self, job_id: str, name: str, body: Any) -> None:
        await self._send_mail(job_id, MailKind.SIGNAL, name=name, body=body)

    async def _send_mail(self, job_id: str, kind: MailKind, name: str, body: Any = None) -> None:
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
        """Sets a handler that is called once when an operator requests that this worker drains, unless it drains
        already."""
        if self._heartbeat is not None:
            self._heartbeat.on_drain(lambda: drain() if self._telling is None else None)

    def drain(self) -> None:
        """Claims no more; runs finish or release their jobs. Called a second time: they release them at once."""
        if self._telling is None and self._heartbeat is not None:
            self._telling = asyncio.get_running_loop().create_task(
                self._heartbeat.drain(), name="holdfast-draining"
            )
        self._worker.drain()

    async def wait_until_done(self) -> None:
        """Waits until the worker has ended by itself, after a drain."""
        if self._working is not None:
            await asyncio.wait([self._working])

    async def close(self) -> None:
        """Finishes or releases what runs, and closes the store."""
        self._worker.drain(at_once=True)
        await self.wait_until_done()
        await self.store.close()


class ForegroundProcess(Process):
    """A process that runs every job whose result is awaited, for commands that run a job in the foreground."""

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
    """Opens a process on the store at this address. `serving`: it is a worker at once; otherwise it claims nothing
    until `drive` or `serve` is called. `worker_command` gives the command that starts a worker for a kind.
    `isolated_command` starts a process that runs one isolated job, with the same application; without it suspects run
    here only if `drive` names them, and are otherwise left to other workers. `ends_when_blocked`: the process ends when
    code blocks its event loop for too long; an application that runs jobs in its own process releases them instead.
    `on_undurable`: what happens when job code does something to the outside world without a tool."""
    offer = WorkerOffer(kinds=tuple(sorted(programs)), concurrency=concurrency) if offer is None else offer
    parse_points(os.environ)  # an invalid crash point is rejected before a store is opened
    meter = add_spans(os.environ, meter)
    store = add_crash_points(await open_store(address), os.environ)
    ids, clock = RandomIds(), store.clock
    neighbours = Neighbours(HostProcesses(clock.boot()))
    own_name = name or neighbours.my_name(socket.gethostname())
    scribe = StreamWriter(store.streams)
    how = RunOptions(strict=strict, on_undurable=on_undurable, isolates=isolated_command is not None)
    config = make_runner_config(store, programs, address, neighbours, scribe, meter, how)
    isolation = isolated_command and ChildProcesses(store, clock, address, isolated_command, own_name, meter)
    rules = RecoveryRules(failed_attempts_max=ATTEMPTS_MAX, by=f"sweep of {own_name}")
    heartbeat = _make_heartbeat(store, clock, neighbours, own_name, offer)
    lease = make_lease(own_name, address, store, neighbours, meter, ends_when_blocked=ends_when_blocked)
    maintenance = Maintenance(
        *(store, clock, neighbours, rules, random.random, meter, heartbeat),
        capabilities=offer.capabilities,
        leaves_suspects=isolated_command is None,
        serving=False,
    )
    worker = Worker(
        config,
        own_name,
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
        *(store, worker, scribe, maintenance, heartbeat),
        serving=False,
        schedules=schedules,
        worker_command=worker_command,
    )
    if serving:
        await process.serve()
    return process


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs run in a process, by its application or its command line."""

    strict: bool = False
    on_undurable: OnUndurable = "ignore"
    isolates: bool = False


def make_runner_config(
    store: Store,
    programs: Mapping[str, Program],
    address: str,
    neighbours: Neighbours,
    scribe: StreamWriter,
    meter: Telemetry,
    how: RunOptions,
) -> RunnerConfig:
    """The configuration of the runs of this process, with the store's clock and the host's randomness."""
    return RunnerConfig(
        store,
        GroupCommit(store.journal, meter),
        store.clock,
        programs,
        strict=how.strict,
        isolates=how.isolates,
        chance=random.random,
        points=parse_points(os.environ),
        gone=neighbours.is_dead,
        inspect=_make_inspector(Path.cwd(), _find_store_file(address)),
        scribe=scribe,
        meter=meter,
        io_monitor=_make_io_monitor(how.on_undurable),
    )


def _make_heartbeat(
    store: Store, clock: Clock, neighbours: Neighbours, worker: str, offer: WorkerOffer
) -> WorkerHeartbeat:
    """The heartbeat of this process, which lists it once it serves."""
    presence = Presence(
        worker=worker,
        identity=neighbours.my_identity() or RandomIds().new("process"),
        host=socket.gethostname(),
        pid=os.getpid(),
        offer=offer,
    )
    return WorkerHeartbeat(store, clock, presence, neighbours.is_dead)


def _make_inspector(base_path: Path, own_file: Path | None) -> Inspector:
    """Checks evidence; imported when there is some."""

    async def inspect(pack: EvidenceSet) -> Sequence[Result]:
        from holdfast.engine.evidence import EvidenceChecker

        checker = EvidenceChecker(base_path, own_file=own_file)
        return await in_thread(lambda: checker.check_all(pack))

    return inspect


def _make_io_monitor(on_undurable: OnUndurable) -> IoMonitor | None:
    """The monitor of job code; imported where it is wanted."""
    if on_undurable == "ignore":
        return None
    from holdfast.engine.audit_hook import make_io_monitor

    return make_io_monitor(on_undurable)


def _find_store_file(address: str) -> Path | None:
    """The store's file, if it is SQLite: only our own library opens it."""
    place = parse(address)
    return place.path if place.kind == "sqlite" else None
