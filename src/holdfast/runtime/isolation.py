"""Isolation, the parent's end: a child process for each suspect, and what its death proves.

    the worker claims a suspect → starts `python -m holdfast isolated APP` → the child takes the lease over under its
    own name → it runs the job → the child ends → a job that it still held is judged (`model.crash_suspects`)

The child is a fresh interpreter with the application, the environment and the log of its parent. A socket connects
them (`runtime.supervisor_link`): the child sends its name and then beats; it ends when the connection is cut, and the
kernel kills it when its parent dies. The child holds the lease, so no other process may act on the job before the
child is proven dead.

Only the parent knows how the child died, and records it. If both die together the lease expires like any other, and
nothing is proven.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.engine.job_runner import JobRun
from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.engine.telemetry import Telemetry
from holdfast.errors import Fenced, MailWaiting, NotFound, Unavailable
from holdfast.model.append import Holder, Move, append_of
from holdfast.model.crash_suspects import (
    DIED_ALONE,
    SuspicionVerdict,
    count_kills_alone,
    describe_exit,
    judge_death,
)
from holdfast.model.events import Event, JobDeadLettered, JobReleased, JobRequeued
from holdfast.model.hash_chain import unseal
from holdfast.model.jobs import JobHead
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import SECOND
from holdfast.runtime.supervisor_link import BEAT_S, PARENT, VARIABLE
from holdfast.store.clock import Clock
from holdfast.store.contract import Store
from holdfast.store.ports.leases import HeldLease

HANDED: Final = "HOLDFAST_HANDED_JOB"
ROOM: Final = 4
"""Child processes of one worker at a time."""

SILENCE_S: Final = 15 * BEAT_S
AGAIN_S: Final = 0.5
NOT_STARTED_US: Final = 10 * SECOND
"""How long a job waits after its child could not be started, for instance because the application cannot be loaded."""

log = logging.getLogger("holdfast.isolation")


class Handover(msgspec.Struct, frozen=True):
    """Handover to a child: the lease that it takes over, and the label of its name."""

    lease: HeldLease
    label: str


class ChildProcesses:
    """Starts, watches and judges the child processes of one worker (an `Isolation`)."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        address: str,
        command: Sequence[str],
        worker: str,
        meter: Telemetry,
        *,
        room: int = ROOM,
    ) -> None:
        self._store = store
        self._clock = clock
        self._address = address
        self._command = command
        self._worker = worker
        self._meter = meter
        self._room = room
        self._free = asyncio.Semaphore(room)
        self._held = 0
        self._running: set[asyncio.subprocess.Process] = set()
        self._draining = asyncio.Event()
        self._at_once = False

    @property
    def has_room(self) -> bool:
        return self._held < self._room

    def drain(self, *, at_once: bool) -> None:
        if self._draining.is_set() and (self._at_once or not at_once):
            return
        self._draining.set()
        self._at_once = at_once
        for child in self._running:
            _stop(child, at_once=at_once)

    async def drive(self, run: JobRun) -> None:
        self._held += 1
        try:
            async with self._free:
                if self._draining.is_set():
                    await run.hand_back("drained")
                    return
                await self._drive(run)
        finally:
            self._held -= 1

    async def _drive(self, run: JobRun) -> None:
        grant = run.grant
        child, line = await self._start(run)
        self._meter.record_isolation("started")
        log.warning(
            "job %s (%s) lost its worker %d times without progress: it runs alone, in process %d. See: holdfast job %s",
            grant.job_id,
            grant.kind,
            grant.takeovers,
            child.pid,
            grant.job_id,
        )
        self._running.add(child)
        try:
            name = await self._listen(child, line)
            status = await child.wait()
        finally:
            self._running.discard(child)
        if not name:
            log.error(
                "job %s did not start: its process %s before it was ready; next attempt in %d s",
                grant.job_id,
                describe_exit(status),
                NOT_STARTED_US // SECOND,
            )
            await run.hand_back("its process did not start", NOT_STARTED_US)
            return
        await self._judge(run, name, status)

    async def _start(self, run: JobRun) -> tuple[asyncio.subprocess.Process, socket.socket]:
        label = re.split("@", self._worker)[0]
        handed = Handover(run.held, label)
        own_end, child_end = socket.socketpair()
        with child_end:
            child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(child_end.fileno(),),
                env=os.environ
                | {
                    VARIABLE: str(child_end.fileno()),
                    PARENT: str(os.getpid()),
                    HANDED: msgspec.json.encode(handed).decode(),
                    "HOLDFAST_STORE": self._address,  # an address may contain a password: not for `ps`
                },
                start_new_session=True,
            )
        if self._draining.is_set():
            _stop(child, at_once=self._at_once)
        return child, own_end

    async def _listen(self, child: asyncio.subprocess.Process, line: socket.socket) -> str:
        """Reads until the connection is cut. Returns the name of the child's worker, or "" if it never sent one. A
        child that is silent for too long is frozen, and killed."""
        reader, writer = await asyncio.open_connection(sock=line)
        try:
            name = (await reader.readline()).decode().strip()
            while name:
                try:
                    async with asyncio.timeout(SILENCE_S):
                        if not await reader.readline():
                            break
                except TimeoutError:
                    log.warning("process %d sent no sign of life for %.0f s: killed", child.pid, SILENCE_S)
                    child.kill()
            return name
        finally:
            writer.close()

    # ── judging ───────────────────────────────────────────────────────────────────────────────────

    async def _judge(self, run: JobRun, name: str, status: int) -> None:
        """Releases what the ended child still held, or holds it as a dead letter."""
        while True:
            try:
                await self._record_verdict(run, name, status)
                return
            except Unavailable as error:
                if self._draining.is_set():
                    return  # the lease expires, and nothing is proven
                log.warning("cannot say how the process of job %s ended: %s", run.grant.job_id, error)
                await sleep_on_loop(AGAIN_S)
            except NotFound:
                return

    async def _record_verdict(self, run: JobRun, name: str, status: int) -> None:
        """Writes with the child's own lease: no other process has it, and none may claim the job before. A job that
        the child no longer holds has ended, waits, or was released."""
        job_id = run.grant.job_id
        head = await self._store.jobs.head(job_id)
        if head.status is not Status.RUNNING or head.lease_owner != name:
            self._log_cleared(head)
            return
        events = await self._store.journal.read(job_id)
        decoded = [
            (sealed_event.at, unseal(sealed_event))
            for sealed_event in events
            if sealed_event.body is not None
        ]
        verdict = judge_death(
            status,
            count_kills_alone(decoded),
            is_draining=self._draining.is_set(),
            has_decision=await self._has_decision(run, head),
        )
        event, move = decide_move(verdict, head, status, self._worker)
        append = append_of(
            Holder(job_id, head.namespace, head.fence, head.lease_token, head.head),
            [event],
            at=max(events[-1].at, self._clock.wall_us()),
            mail_seen=head.mail_seq if verdict is SuspicionVerdict.CONVICTED else None,
            move=move,
        )
        try:
            await self._store.journal.append(append)
        except MailWaiting:  # mail has just arrived, and may restart the job
            await self._record_verdict(run, name, status)
            return
        except Fenced:
            return  # the lease expired before this write: another worker holds the job
        self._log_verdict(head, verdict, status)

    async def _has_decision(self, run: JobRun, head: JobHead) -> bool:
        """Whether a person has decided about the job since this worker claimed it. The child has read earlier mail
        before it ran the job's code."""
        if head.mail_seq <= run.grant.mail_seq:
            return False
        letters = await self._store.post.read(head.job_id, after=run.grant.mail_seq)
        return any(letter.kind in {MailKind.CANCEL, MailKind.RESUME} for letter in letters)

    def _log_verdict(self, head: JobHead, verdict: SuspicionVerdict, status: int) -> None:
        died = f"its process {describe_exit(status)} while it ran alone"
        if verdict is SuspicionVerdict.CONVICTED:
            self._meter.record_isolation("convicted")
            message = "job %s (%s) is a dead letter: %s. See: holdfast job %s"
        else:
            message = "job %s (%s) is still a suspect: %s. See: holdfast job %s"
        log.warning(message, head.job_id, head.kind, died, head.job_id)

    def _log_cleared(self, head: JobHead) -> None:
        if head.takeovers and head.status is Status.PENDING:
            return  # drained: nothing is proven
        self._meter.record_isolation("cleared")
        log.info(
            "job %s (%s) ran in a process of its own, which survived: no longer a suspect (%s)",
            *(head.job_id, head.kind, head.wait_reason or head.status),
        )


def decide_move(verdict: SuspicionVerdict, head: JobHead, status: int, parent: str) -> tuple[Event, Move]:
    """The event and the move for a job whose child process died: a dead letter, one more death, or a release that
    counts as neither."""
    died = f"{DIED_ALONE}: it {describe_exit(status)}"
    back = Move(status=Status.PENDING, ready_at=head.ready_at)
    match verdict:
        case SuspicionVerdict.CONVICTED:
            cause = {"why": died, "holder": head.lease_owner}
            return JobDeadLettered((cause,)), Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER)
        case SuspicionVerdict.SUSPECT:
            event = JobRequeued(died, parent, takeover=True, holder=head.lease_owner)
            return event, msgspec.structs.replace(back, takeover=True)
        case SuspicionVerdict.UNPROVEN:
            return JobReleased(why=died), back


def _stop(child: asyncio.subprocess.Process, *, at_once: bool) -> None:
    """Two different signals: the kernel merges equal signals that are pending together."""
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(signal.SIGINT if at_once else signal.SIGTERM)
