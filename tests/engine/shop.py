"""A small workshop: a store, one committer, some programs, and workers that claim and can be cut off."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from holdfast.engine.durable_call import READS, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.job_runner import JobRun
from holdfast.engine.runner_config import Program, RunnerConfig
from holdfast.engine.verify.verify import verify
from holdfast.model import job_state
from holdfast.model.events import Event
from holdfast.model.hash_chain import unseal
from holdfast.model.jobs import DEFAULT_QUEUE, JobDraft
from holdfast.model.mailbox import MailDraft, MailReceipt
from holdfast.model.states import MailKind
from holdfast.model.time import SECOND
from holdfast.store.clock import VirtualClock
from holdfast.store.contract import Store
from holdfast.store.ports.leases import ClaimRequest
from holdfast.store.tables.store import SqlStore
from holdfast.testing.conformance.harness import Backend


class Shop:
    """What programs do for real is counted in `done`."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.store = store
        self.clock = clock
        self.done: Counter[str] = Counter()
        self.programs: dict[str, Program] = {}
        self._tokens = itertools.count(1)
        self._doing: dict[str, asyncio.Event] = {}

    def desk(self, *, strict: bool = False) -> RunnerConfig:
        """As a process of its own would have it. No journal is too short to be read from its last checkpoint on."""
        committer = GroupCommit(self.store.journal)
        return RunnerConfig(self.store, committer, self.clock, self.programs, strict=strict, short=0)

    async def look(self, drive: Execution, name: str, answer: Callable[[], Any] | None = None) -> Any:
        async def run(_key: str) -> Any:
            self.done[name] += 1
            self._doing.setdefault(name, asyncio.Event()).set()
            value = name.upper() if answer is None else answer()
            return await value if asyncio.isfuture(value) else value

        return await drive.call(DurableCall("look", [name], run, READS))

    async def until(self, name: str) -> None:
        """Somebody has begun to look for this."""
        await self._doing.setdefault(name, asyncio.Event()).wait()

    async def submit(self, program: Program, given: Any = None) -> str:
        self.programs[program.__name__] = program
        submitted = await self.store.jobs.submit(JobDraft(kind=program.__name__, input=given))
        return submitted.job_id

    async def claim(
        self,
        *,
        worker: str = "worker",
        ttl_us: int = 30 * SECOND,
        desk: RunnerConfig | None = None,
        incarnation: str | None = None,
    ) -> JobRun:
        runs = await self.claim_all(worker=worker, ttl_us=ttl_us, limit=1, desk=desk, incarnation=incarnation)
        assert runs, "nothing to claim"
        return runs[0]

    async def claim_all(
        self,
        *,
        worker: str = "worker",
        ttl_us: int = 30 * SECOND,
        limit: int = 100,
        desk: RunnerConfig | None = None,
        queue: str = DEFAULT_QUEUE,
        incarnation: str | None = None,
    ) -> list[JobRun]:
        ask = ClaimRequest(
            worker=worker,
            token=f"token-{next(self._tokens)}",
            queues=(queue,),
            limit=limit,
            ttl_us=ttl_us,
            incarnation=incarnation,
        )
        grants = await self.store.leases.claim(ask)
        desk = self.desk() if desk is None else desk
        return [JobRun(desk, grant) for grant in grants]

    async def tell(
        self, job_id: str, kind: MailKind, body: Any = None, *, name: str = "", by: str = "ada"
    ) -> MailReceipt:
        """A letter to the job, each with an operation of its own."""
        operation = f"op-{next(self._tokens)}"
        return await self.store.post.send(
            MailDraft(job_id=job_id, kind=kind, operation_id=operation, name=name, body=body, sender=by)
        )

    async def drive_all(self, *, worker: str = "worker") -> list[str]:
        """How every claim ended until nothing is claimable now."""
        ends: list[str] = []
        while runs := await self.claim_all(worker=worker):
            ends += [await run.go() for run in runs]
        return ends

    async def events(self, job_id: str) -> list[Event]:
        return [unseal(sealed) for sealed in await self.store.journal.read(job_id)]

    async def job(self, job_id: str) -> job_state.JobState:
        """The job as its journal tells it; the journal must be one that can be told."""
        sealed = await self.store.journal.read(job_id)
        return job_state.fold((one.seq, one.fence, unseal(one)) for one in sealed)


@asynccontextmanager
async def opened(backend: Backend) -> AsyncIterator[Shop]:
    """The shop is open. What was done in it leaves no invariant broken."""
    store = await backend.open()
    try:
        yield Shop(store, backend.clock)
        if isinstance(store, SqlStore):
            report = await verify(store)
            assert report.clean, report.violations
    finally:
        await store.close()
