"""Stage: workers and scripts as processes of their own over one store, seen as a user sees them."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from holdfast.api.job_records import EventView, JobView
from holdfast.client.in_process import EmbeddedClient
from holdfast.errors import NotOver
from holdfast.model.ids import RandomIds
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import HELD, TERMINAL, MailKind, Status, WaitReason
from holdfast.runtime import open_store
from holdfast.store import address
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store
from holdfast.store.sqlite.lock_holders import find_stopped_writers
from tests.kill.processes.receiver import Receiver
from tests.support.project import ROOT

APP = ROOT / "tests/kill/processes/app.py"
PATIENCE_S = 120.0
"""How long a job may take to its end: many times what it needs, also on a busy machine."""


class Child:
    """A process of the stage. Its stderr is a file: what it wrote before something that the test has seen is there to
    read, whereas a pipe would still have to be read by a task that may come later."""

    def __init__(self, process: asyncio.subprocess.Process, stderr: Path) -> None:
        self.process = process
        self._stderr = stderr

    @property
    def log(self) -> str:
        """Everything that it has written to stderr until now."""
        return self._stderr.read_text(encoding="utf-8", errors="replace")

    async def wait_for_log(self, pattern: str) -> None:
        """Wait for a line on stderr."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                has_ended = self.process.returncode is not None
                if re.search(pattern, self.log) is not None:
                    return
                assert not has_ended, self.log
                await asyncio.sleep(0.01)

    async def end(self, how: int) -> int:
        """Send the signal, and wait for the process to end."""
        self.process.send_signal(how)
        return await self.over()

    async def over(self) -> int:
        """The exit status, once the process has ended by itself."""
        async with asyncio.timeout(PATIENCE_S):
            await self.process.wait()
        assert self.process.returncode is not None
        return self.process.returncode

    async def close(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.over()


def is_stopped(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


class Stage:
    """Everything that was started here is ended by `close`."""

    def __init__(self, folder: Path, address: str, receiver: Receiver, store: Store) -> None:
        self.folder = folder
        self.receiver = receiver
        self.environment: dict[str, str] = {}
        self._address = address
        self._store = store
        self._client = EmbeddedClient(store, SystemClock(), RandomIds())
        self._children: list[Child] = []
        self._numbers = itertools.count(1)

    # ── processes ─────────────────────────────────────────────────────────────────────────────────

    async def worker(self, app: Path = APP, *options: str) -> Child:
        """`holdfast worker app.py`, at work."""
        worker = await self.command("worker", str(app), *options)
        await worker.wait_for_log("working on")
        return worker

    async def stop(self, child: Child) -> None:
        """SIGSTOP, and not in the middle of a write to a file: others who want to write would continue the process."""
        path = address.parse(self._address)
        while True:
            child.process.send_signal(signal.SIGSTOP)
            while not is_stopped(child.process.pid):
                os.sched_yield()
            if path.kind != "sqlite" or child.process.pid not in find_stopped_writers(path.path):
                return
            child.process.send_signal(signal.SIGCONT)

    async def command(self, *arguments: str) -> Child:
        """A command of the command line that is left running."""
        return await self._start("-m", "holdfast", *arguments)

    async def script(
        self, *arguments: str, app: Path = APP, stdin: int = asyncio.subprocess.DEVNULL
    ) -> Child:
        """`python app.py …`."""
        return await self._start(str(app), *arguments, stdin=stdin)

    async def holdfast(self, *arguments: str) -> str:
        """What a command of the command line prints."""
        child = await self._start("-m", "holdfast", *arguments, stdout=asyncio.subprocess.PIPE)
        assert child.process.stdout is not None
        printed = (await child.process.stdout.read()).decode()
        assert await child.over() == 0, (arguments, child.log)
        return printed

    async def refused(self, *arguments: str) -> str:
        """What a command says that does not do what it was asked for."""
        child = await self._start("-m", "holdfast", *arguments)
        assert await child.over() != 0, arguments
        return child.log

    async def _start(
        self,
        *arguments: str,
        stdin: int = asyncio.subprocess.DEVNULL,
        stdout: int = asyncio.subprocess.DEVNULL,
    ) -> Child:
        stderr = self.folder / f".stderr-{next(self._numbers)}"
        with stderr.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                cwd=self.folder,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT / "src"),
                    "HOLDFAST_STORE": self._address,
                    "RECEIVER": self.receiver.address,
                    **self.environment,
                },
                stdin=stdin,
                stdout=stdout,
                stderr=file,
            )
        child = Child(process, stderr)
        self._children.append(child)
        return child

    async def close(self) -> None:
        for child in self._children:
            await child.close()
        await self._store.close()

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────

    async def submit(self, kind: str, job_id: str = "job", **given: Any) -> str:
        return (await self._client.submit(kind, given, job_id=job_id)).job_id

    async def job(self, job_id: str = "job") -> JobView:
        """What `holdfast job ID --json` prints."""
        return await self._client.get(job_id)

    async def jobs(self) -> list[str]:
        return [record.job_id for record in (await self._client.list()).items]

    async def events(self, job_id: str = "job") -> list[EventView]:
        return list(await self._client.events(job_id))

    async def types(self, job_id: str = "job") -> list[str]:
        """The types of the journal's events, in their order."""
        return [event.type for event in await self.events(job_id)]

    async def until_recorded(self, event_type: str, times: int, job_id: str = "job") -> None:
        """Wait for the journal to have so many events of this type."""
        await self._until(lambda types: types.count(event_type) >= times, f"{times} {event_type}", job_id)

    async def _until(self, seen: Callable[[list[str]], bool], what: str, job_id: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not seen(await self.types(job_id)):
                    await self._store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.05)
        except TimeoutError:
            raise AssertionError(f"not recorded: {what}\n{await self.report(job_id)}") from None

    async def until_scheduled(self, schedule_id: str, after: int) -> None:
        """Wait for the schedule to stand at an instant after this one."""
        async with asyncio.timeout(PATIENCE_S):
            while (await self._store.schedules.get(schedule_id)).next_at <= after:
                await self._store.wakeups.wait(frozenset({"schedules"}), 0.05)

    async def signal(self, name: str, job_id: str = "job") -> None:
        await self._client.signal(job_id, name)

    async def cancel(self, job_id: str) -> None:
        await self._client.cancel(job_id, by="ada")

    async def approve_nothing(self, job_id: str) -> None:
        """Send an approval that the job has not asked for."""
        body = {"approval_id": "none", "decision": "approved", "why": ""}
        draft = MailDraft(
            job_id=job_id, kind=MailKind.APPROVAL, operation_id="none", name="", body=body, sender="ada"
        )
        await self._store.post.send(draft)

    async def until_uncertain(self, job_id: str) -> None:
        """Wait for the job to ask a person what became of a call."""
        async with asyncio.timeout(PATIENCE_S):
            while (await self.job(job_id)).wait_reason is not WaitReason.RECONCILE:
                assert (await self.job(job_id)).wait_reason not in HELD, await self.report(job_id)
                await self._store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.05)

    async def completed(self, job_id: str = "job", *, patience_s: float = PATIENCE_S) -> Any:
        """The output of the job; an assertion with its state and journal, if it is held or does not come to its end."""
        try:
            async with asyncio.timeout(patience_s):
                while (await self._look(job_id)).status not in TERMINAL:
                    await self._check_going_on(job_id)
        except TimeoutError:
            raise AssertionError(
                f"no end after {patience_s:g} s, and nobody is asked\n{await self.report(job_id)}"
            ) from None
        job = await self.job(job_id)
        assert job.status is Status.COMPLETED, await self.report(job_id)
        return job.output

    async def _look(self, job_id: str) -> JobView:
        try:
            return await self._client.result(job_id, timeout_s=0.1)
        except NotOver:
            return await self.job(job_id)

    async def _check_going_on(self, job_id: str) -> None:
        if (await self.job(job_id)).wait_reason in {*HELD, WaitReason.RECONCILE}:
            raise AssertionError(f"held for a person\n{await self.report(job_id)}")

    async def report(self, job_id: str = "job") -> str:
        """A job as a failed test shows it."""
        job = await self.job(job_id)
        lines = [f"{job.kind} {job_id}: {job.status} {job.wait_reason or ''} wake_at={job.wake_at}"]
        lines += [f"  needs: {need.what} {need.evidence or ''}" for need in job.needs]
        if job.error is not None:
            lines.append(f"  error: {job.error}")
        lines += [
            f"  {event.seq} {event.type} {json.dumps(event.body, ensure_ascii=False)[:300]}"
            for event in await self.events(job_id)
        ]
        lines.append(f"  receiver: {[(one.call, one.item) for one in self.receiver.log]}")
        for child in self._children:
            lines.append(f"  process {child.process.pid}: {child.log[-1500:]}")
        return "\n".join(lines)


async def opened(folder: Path, address: str, receiver: Receiver) -> Stage:
    """A stage over the store at this address, which is made if it is not there."""
    return Stage(folder, address, receiver, await open_store(address))


@asynccontextmanager
async def blocked_writes(address: str) -> AsyncIterator[None]:
    """In the block no process appends to a journal of the store at this address; reads go on."""
    if address.startswith("sqlite"):
        connection = apsw.Connection(address.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
        finally:
            connection.close()
        return
    server = await asyncpg.connect(address)
    try:
        async with server.transaction():
            await server.execute("LOCK TABLE holdfast.events IN EXCLUSIVE MODE")
            yield
    finally:
        await server.close()


KILL = signal.SIGKILL
INTERRUPT = signal.SIGINT
