"""Jobs in every state a person meets, brought there by the engine itself: killed, failed, changed, asleep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import msgspec

from holdfast.client.embedded import EmbeddedClient
from holdfast.client.protocol import Client
from holdfast.client.remote import RemoteClient
from holdfast.engine import stall_detector
from holdfast.engine.children import spawn
from holdfast.engine.crash_points import Point
from holdfast.engine.durable_call import CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.job_runner import JobRun
from holdfast.engine.questions import Question, ask
from holdfast.engine.runner_config import RunnerConfig
from holdfast.engine.suspension import sleep
from holdfast.errors import Fenced
from holdfast.model.append import Move
from holdfast.model.budget import Budget
from holdfast.model.events import ApprovalRequested, JobWaiting
from holdfast.model.ids import SequentialIds
from holdfast.model.jobs import JobDraft
from holdfast.model.side_effects import Effect
from holdfast.model.states import Status, WaitReason
from holdfast.model.time import HOUR, MINUTE, SECOND
from holdfast.store.clock import VirtualClock
from holdfast.store.contract import Store
from holdfast.testing.conformance.driver import Driver
from holdfast.testing.conformance.harness import Backend
from tests.api.server.served import served
from tests.engine.shop import Shop
from tests.support.fixtures.stores import STORES, SqliteBackend
from tests.support.mail_receivers import KeyedMail, PlainMail, ProbedMail

OVER_HTTP = "http"
CLIENTS = (*STORES, OVER_HTTP)
"""Every way to speak to jobs: the same tests for each."""

_ASKS = {"uncertain": "tool_uncertain", "approval": "approval_requested", "question": "question_asked"}
KEYED = CallPolicy(effect=Effect.IDEMPOTENT, key_lifetime_us=24 * HOUR)


class Lives(Shop):
    """A shop whose jobs end up where a test wants them; `client` is how an outsider sees them."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        super().__init__(store, clock)
        self.client: Client = EmbeddedClient(store, clock, SequentialIds(9))
        self.plain, self.keyed, self.probed = PlainMail(), KeyedMail(), ProbedMail()

    # ── programs ──────────────────────────────────────────────────────────────────────────────────

    async def report(self, drive: Execution, order: Any) -> Any:
        """Two lookups side by side, a keyed mail, a nap, a last look."""

        async def fetch(page: str) -> Any:
            return await self.look(drive, page)

        with drive.scope("research"):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(fetch(page)) for page in ("orders", "prices")]
        found = [task.result() for task in tasks]
        sent = await self._mail(drive, "send_report", KEYED, self.keyed, {"order": order, "found": found})
        await sleep(drive, 90 * SECOND)
        return {"sent": sent, "then": await self.look(drive, "after")}

    async def refund(self, drive: Execution, order: Any) -> Any:
        """A look, and a payment that declares nothing."""
        found = await self.look(drive, "order")
        return await self._mail(
            drive, "pay", CallPolicy(), self.plain, {"order": order, "found": found, "cents": 4200}
        )

    async def notify(self, drive: Execution, order: Any) -> Any:
        """A mail whose receiver can be asked."""
        terms = CallPolicy(effect=Effect.VERIFIABLE, probe=self.probed.probe)
        return await self._mail(drive, "notify", terms, self.probed, order)

    async def hopeless(self, drive: Execution, _: Any) -> Any:
        def fails() -> Any:
            raise LookupError("no such page")

        return await self.look(drive, "page", fails)

    async def nap(self, drive: Execution, _: Any) -> Any:
        await sleep(drive, HOUR)

    async def slow(self, drive: Execution, _: Any) -> Any:
        return await self.look(drive, "slow", lambda: asyncio.get_running_loop().create_future())

    async def forgetful(self, drive: Execution, _: Any) -> Any:
        """A look, and a future that nothing ever sets."""
        await self.look(drive, "order")
        return await asyncio.get_running_loop().create_future()

    async def busy(self, drive: Execution, order: Any) -> Any:
        """A look that takes long; beside it a payment, a payment that needs a yes, and a question."""
        asks = CallPolicy(approve=lambda _args: True)
        question = Question("Which order?", {"type": "string"})
        async with asyncio.TaskGroup() as group:
            group.create_task(self.slow(drive, order))
            if order["kind"] == "uncertain":
                group.create_task(self._mail(drive, "pay", CallPolicy(), self.plain, order))
            elif order["kind"] == "approval":
                group.create_task(self._mail(drive, "pay", asks, self.plain, order))
            else:
                group.create_task(ask(drive, question, lambda said: isinstance(said, str)))

    async def thrifty(self, drive: Execution, given: Any) -> Any:
        """Some pages, and children with a page each."""
        pages = [f"page {n}" for n in range(given.get("children", 0))]
        drafts = [JobDraft(kind="thrifty", input={"pages": [page]}) for page in pages]
        seen = [await self.look(drive, page) for page in given["pages"]]
        return seen + await asyncio.gather(*(spawn(drive, draft) for draft in drafts))

    async def _mail(self, drive: Execution, name: str, terms: CallPolicy, mail: PlainMail, args: Any) -> Any:
        async def send(key: str) -> Any:
            self.clock.advance(SECOND // 4)
            return await mail.send(key, str(args))

        return await drive.call(DurableCall(name, args, send, terms))

    # ── states ────────────────────────────────────────────────────────────────────────────────────

    async def killed(self, program: Any, tool: str, at: Point, given: Any = "A-1") -> str:
        """A job whose first worker, `ant`, died at this point; its lease has run out."""
        job_id = await self.submit(program, given)
        runs: list[JobRun] = []
        runs.append(await self.claim(worker="ant", desk=_killing(self.desk(), at, tool, runs)))
        assert await runs[0].go() == "lost"
        self.clock.advance(31 * SECOND)
        return job_id

    async def go_on(self, *, worker: str = "bee", rounds: int = 4, step_us: int = 2 * MINUTE) -> list[str]:
        """What others make of it, claim by claim."""
        ends = []
        for _ in range(rounds):
            ends += [await run.go() for run in await self.claim_all(worker=worker)]
            self.clock.advance(step_us)
        return ends

    async def go_on_thrifty(self) -> list[str]:
        self.programs["thrifty"] = self.thrifty
        return await self.go_on(rounds=1)

    async def uncertain(self, at: Point = Point.AFTER_SUCCESS) -> str:
        """A payment that nobody knows about; at this instant the quiet period is not over yet."""
        job_id = await self.killed(self.refund, "pay", at)
        assert await (await self.claim(worker="bee")).go() == "waiting"
        return job_id

    async def finished(self) -> str:
        job_id = await self.killed(self.report, "send_report", Point.AFTER_SUCCESS)
        assert (await self.go_on())[-1] == "completed"
        return job_id

    async def dead(self) -> str:
        job_id = await self.submit(self.hopeless)
        assert (await self.go_on())[-1] == "waiting"
        return job_id

    async def parked(self) -> str:
        """Its payment is out; then somebody renames the tool."""
        job_id = await self.killed(self.refund, "pay", Point.AFTER_LEDGER)

        async def renamed(drive: Execution, order: Any) -> Any:
            await self.look(drive, "order")
            return await self._mail(drive, "pay_out", CallPolicy(), self.plain, {"order": order})

        self.programs["refund"] = renamed
        assert await (await self.claim(worker="bee")).go() == "waiting"
        return job_id

    async def sleeping(self) -> str:
        job_id = await self.submit(self.nap)
        assert await (await self.claim(worker="ant")).go() == "waiting"
        return job_id

    async def stopped(self, *, children: int = 0) -> str:
        """A job that has used up its budget; or whose children have, all of them."""
        given = {"pages": ["a"] if children else ["a", "b", "c"], "children": children}
        self.programs["thrifty"] = self.thrifty
        draft = JobDraft(kind="thrifty", input=given, budget=Budget(tool_calls=1 if children else 2, usd=3))
        job_id = (await self.store.jobs.submit(draft)).job_id
        assert set(await self.go_on(worker="ant", rounds=2, step_us=SECOND)) == {"waiting"}
        return job_id

    async def stalled(self) -> str:
        """A job whose code waits for what never comes, until it is held; it takes no ten minutes here."""
        job_id = await self.submit(self.forgetful)
        quickly: dict[str, Any] = {"LOOK_EVERY_S": 0.01, "REPORT_AFTER_S": 0.01, "HOLD_AFTER_S": 0.02}
        with mock.patch.multiple(stall_detector, **quickly):
            assert await (await self.claim(worker="ant")).go() == "waiting"
        return job_id

    @asynccontextmanager
    async def needing(self, kind: str) -> AsyncIterator[tuple[str, JobRun]]:
        """A job that runs, and needs a person for something beside: its uncertain call, its approval, its question."""
        if kind == "uncertain":
            job_id = await self.killed(self.busy, "pay", Point.AFTER_SUCCESS, {"kind": kind})
        else:
            job_id = await self.submit(self.busy, {"kind": kind})
        run = await self.claim(worker="bee")
        going = asyncio.create_task(run.go())
        try:
            await self.until_recorded(job_id, _ASKS[kind])
            yield job_id, run
        finally:
            going.cancel()
            await asyncio.wait([going])

    async def until_recorded(self, job_id: str, event_type: str) -> None:
        """The journal of the job has an event of this type."""
        while event_type not in {event.type for event in await self.events(job_id)}:
            await self.store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.05)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[tuple[str, JobRun]]:
        """A job that somebody drives, at its first look."""
        job_id = await self.submit(self.slow)
        run = await self.claim(worker="ant")
        going = asyncio.create_task(run.go())
        await self.until("slow")
        try:
            yield job_id, run
        finally:
            going.cancel()
            await asyncio.wait([going])

    async def asking(self, *, expires_at: int | None = None) -> str:
        """A job that waits for a person's yes; written by hand."""
        job_id = await self.submit(self.refund, "A-1")
        run = await self.claim(worker="ant")
        driver = Driver(self.store, self.clock, run.grant)
        asked = ApprovalRequested("apr_1", "0/pay#1", "digest", expires_at=expires_at)
        move = Move(status=Status.WAITING, reason=WaitReason.APPROVAL)
        await driver.write(asked, JobWaiting(WaitReason.APPROVAL), move=move)
        return job_id


def _killing(desk: RunnerConfig, at: Point, tool: str, runs: list[JobRun]) -> RunnerConfig:
    def reached(point: Point, name: str) -> None:
        if (point, name) == (at, tool):
            runs[0].lose(Fenced("this process was killed"))

    return msgspec.structs.replace(desk, points=reached)


class ServedBackend(SqliteBackend):
    """A store whose jobs are looked at and spoken to through a server."""


@asynccontextmanager
async def lives(backend: Backend) -> AsyncIterator[Lives]:
    store = await backend.open()
    try:
        one = Lives(store, backend.clock)
        if isinstance(backend, ServedBackend):
            async with (
                served(store, backend.clock) as url,
                RemoteClient(url, ids=SequentialIds(9)) as one.client,
            ):
                yield one
        else:
            yield one
    finally:
        await store.close()
