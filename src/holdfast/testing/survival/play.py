"""One simulated run of an agent: its own store, a worker that may be killed, and another that continues.

Calls are counted where every call passes, whether it comes from a tool, a step or a model. A call that was begun runs
to its end even if its worker dies meanwhile, like a request that has already been sent; so its real outcome is always
known, and a simulated person can decide on it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.engine.audit_hook import make_io_monitor
from holdfast.engine.durable_call import DurableCall, ProbeResult
from holdfast.engine.evidence import EvidenceChecker
from holdfast.engine.execution import Execution, IdentifiedCall
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.runner_config import RunnerConfig
from holdfast.model.append import Append
from holdfast.model.events import Event, JobCompleted
from holdfast.model.hash_chain import SealedEvent, unseal
from holdfast.model.ids import SequentialIds
from holdfast.model.lease import LEASE_TTL_US
from holdfast.model.side_effects import ProbeAnswer
from holdfast.model.states import HELD, TERMINAL, Status, WaitReason
from holdfast.store.contract import Store
from holdfast.store.interceptor import Call, InterceptedStore
from holdfast.store.memory.store import MemoryStore
from holdfast.testing.simulated_process import SimulatedProcess
from holdfast.testing.survival.facts import MadeCall, PassedPoint, RunResult, RunSettings
from holdfast.testing.survival.loop import KitLoop
from holdfast.testing.survival.people import SimulatedOperator
from holdfast.testing.time_skipping import TimeSkippingClock, find_idle_us, list_open_heads
from holdfast.testing.virtual_loop import Deadlock, LoopClock
from holdfast.testing.worker_errors import WorkerErrors
from holdfast.worker.worker import Worker

READS: Final = frozenset(
    "attempts counts find get has head list list_expired load node owners read read_many since_commit timers "
    "wait".split()
)
"""Calls of the store that change nothing: a kill there equals a kill after the write before."""

RENEWALS: Final = frozenset({"leases.beat", "leases.expire", "leases.start"})
"""Calls that renew the leases of workers and change no job: a kill there equals a kill after the write before."""

THREADS_S: Final = 10.0

_FOUND: Final = {
    ProbeAnswer.HAPPENED: "it had happened",
    ProbeAnswer.NOT_HAPPENED: "it had not happened",
    ProbeAnswer.CANNOT_TELL: "nobody could tell",
}


class _WorkerLife:
    """A worker's process from its start to its end; it is killed at `cut` if there is one."""

    def __init__(
        self, process: SimulatedProcess, cut: PassedPoint | None, died: Callable[[PassedPoint], None]
    ) -> None:
        self.process = process
        self.passed: list[PassedPoint] = []
        self._cut = cut
        self._died = died
        self._times: Counter[str] = Counter()

    def pass_point(self, point: str, step: str) -> None:
        """The process passes this crash point, and is killed if it is the cut."""
        if self.process.dead:
            return
        self._times[point] += 1
        here = PassedPoint(point, self._times[point], step)
        self.passed.append(here)
        if self._cut is not None and (here.point, here.nth) == (self._cut.point, self._cut.nth):
            self.process.kill()
            self._died(here)

    def forget(self, count: int) -> None:
        """Drop the last points: they belong to a call that changed nothing."""
        if not self.process.dead:
            del self.passed[-count:]


class _CrashingStore(InterceptedStore):
    """The store as one worker sees it, with crash points around its writes."""

    def __init__(self, store: Store, life: _WorkerLife, moved: asyncio.Event) -> None:
        super().__init__(store, self._intercept)
        self._life = life
        self._moved = moved
        self.wakeups = store.wakeups

    async def _intercept(self, name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        life = self._life
        await life.process.must_live()
        if name.rpartition(".")[2] in READS or name in RENEWALS:
            return await call(*args, **options)
        life.pass_point(f"{name}:before", _describe_events(args))
        await life.process.must_live()
        result = await call(*args, **options)
        life.pass_point(f"{name}:after", _describe_events(args))
        if name == "leases.claim" and not result:
            life.forget(2)
        self._moved.set()
        await life.process.must_live()
        return result


class SimulatedRun:
    """`cuts`: the crash points at which the first worker dies, the second, and so on."""

    def __init__(self, setting: RunSettings, loop: KitLoop, cuts: Sequence[PassedPoint]) -> None:
        self.clock = TimeSkippingClock(LoopClock(loop))
        self.store = MemoryStore(self.clock, SequentialIds(1))
        self.lives: dict[str, _WorkerLife] = {}
        self.reached: list[PassedPoint] = []
        self.calls: list[MadeCall] = []
        self.moved = asyncio.Event()
        self._setting = setting
        self._loop = loop
        self._cuts = list(cuts)
        self._ids = SequentialIds(2)
        self._said: list[str] = []
        self._people = SimulatedOperator(self.store, setting, self.calls, self._said)

    # ── workers ───────────────────────────────────────────────────────────────────────────────────

    def _start(self) -> None:
        """Start one more worker, in a process of its own."""
        number = len(self.lives)
        process = self._loop.process(f"worker-{number + 1}")
        cut = self._cuts[number] if number < len(self._cuts) else None
        life = self.lives[process.name] = _WorkerLife(process, cut, self._replace_worker)
        store = _CrashingStore(self.store, life, self.moved)
        checker = EvidenceChecker(Path.cwd())

        async def inspect(pack: Any) -> Any:
            return checker.check_all(pack)

        config = RunnerConfig(
            store,
            GroupCommit(store.journal),
            self.clock,
            self._setting.programs,
            strict=self._setting.strict,
            points=lambda point, tool: life.pass_point(str(point), tool),
            inspect=inspect,
            io_monitor=make_io_monitor(self._setting.on_undurable),
            execution=self._make_execution(process),
        )
        worker = Worker(config, process.name, lambda: self._ids.new("claim"), queues=self._setting.queues)
        process.start(worker.work())

    def _replace_worker(self, here: PassedPoint) -> None:
        """A worker died: start another."""
        self.reached.append(here)
        self._loop.root.call_later(0.0, self._start)
        self._loop.root.call_later(0.0, self.moved.set)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _make_execution(self, process: SimulatedProcess) -> type[Execution]:
        """A subclass of Execution that reports its calls to this run."""
        see_call, see_attempt = self._call, self._perform

        class SeenExecution(Execution):
            async def call(self, durable_call: DurableCall, met: IdentifiedCall | None = None) -> Any:
                return await see_call(super().call, durable_call, met)

            async def perform(
                self,
                durable_call: DurableCall,
                place: Any,
                step_key: str,
                key: str = "",
                longest_us: int | None = None,
            ) -> tuple[Any, Exception | None]:
                return await see_attempt(
                    process, super().perform, durable_call, place, step_key, key, longest_us
                )

        return SeenExecution

    async def _call(self, call: Callable[..., Awaitable[Any]], durable_call: DurableCall, *met: Any) -> Any:
        """Make the call with a probe that is reported."""
        probe = durable_call.terms.probe
        if probe is None:
            return await call(durable_call, *met)

        async def run_probe(key: str, args: Any) -> ProbeResult:
            with self._count_call():
                probed = await probe(key, args)
            self._said.append(f"{durable_call.name} was looked up: {_FOUND[probed.answer]}")
            return probed

        async def adopt_probe(key: str, args: Any) -> ProbeResult:
            probed: ProbeResult = await self._loop.root.adopt(run_probe(key, args))
            return probed

        terms = msgspec.structs.replace(durable_call.terms, probe=adopt_probe)
        return await call(msgspec.structs.replace(durable_call, terms=terms), *met)

    async def _perform(
        self,
        process: SimulatedProcess,
        perform: Callable[..., Awaitable[tuple[Any, Exception | None]]],
        durable_call: DurableCall,
        place: Any,
        step_key: str,
        key: str = "",
        longest_us: int | None = None,
    ) -> tuple[Any, Exception | None]:
        await process.must_live()
        made = MadeCall(
            durable_call.name, durable_call.args, key, durable_call.terms.effect, durable_call.terms.relaunch
        )

        async def run_to_end(key: str) -> Any:
            return await self._loop.root.adopt(self._make_call(made, durable_call.run, key))

        outlasting = msgspec.structs.replace(durable_call, run=run_to_end)
        return await perform(outlasting, place, step_key, key, longest_us)

    async def _make_call(self, made: MadeCall, run: Callable[[str], Awaitable[Any]], key: str) -> Any:
        made.key = key
        self.calls.append(made)
        with self._count_call():
            try:
                made.result = await run(key)
                made.returned = True
            except Exception as error:
                made.error = error
                raise
            finally:
                made.ended = True
        return made.result

    @contextmanager
    def _count_call(self) -> Iterator[None]:
        self._loop.calls += 1
        try:
            yield
        finally:
            self._loop.calls -= 1
            self.moved.set()

    # ── the play ──────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> RunResult:
        job_id = await self._submit()
        self._start()
        stopped, where = await self._run_to_end(job_id)
        last = unseal((await self.store.journal.read(where))[-1])
        return RunResult(
            passed=[life.passed for life in self.lives.values()],
            reached=self.reached,
            calls=self.calls,
            said=self._said,
            output=await self._read_output(last),
            stopped=stopped,
            report=getattr(last, "report", None) or getattr(last, "causes", None),
        )

    async def _submit(self) -> str:
        draft, message = self._setting.draft, self._setting.message
        if message is None:
            return (await self.store.jobs.submit(draft)).job_id
        return (await self.store.inbox.deliver(message, draft)).batch_id

    async def _read_output(self, last: Event) -> Any:
        """The output: for a turn of a session, the bodies of all its nodes."""
        if not isinstance(last, JobCompleted) or self._setting.message is None:
            return last.output if isinstance(last, JobCompleted) else None
        view = await self.store.sessions.load(self._setting.message.session_id)
        return None if view is None else [node.body for node in view.graph.nodes]

    async def _run_to_end(self, job_id: str) -> tuple[str | None, str]:
        """Run until the job ends or is stuck: returns the reason (None if the job completed), and the job that is the
        cause: it, or one of its children."""
        while True:
            self.moved.clear()
            head = await self.store.jobs.head(job_id)
            if head.status in TERMINAL:
                return (None if head.status is Status.COMPLETED else str(head.status)), job_id
            open_now = [open_head async for open_head in list_open_heads(self.store)]
            for open_head in open_now:
                if open_head.wait_reason in HELD:
                    return str(open_head.wait_reason), open_head.job_id
            if await self._people.act(open_now) or await self._skip_time():
                continue
            for_ever = all(
                open_head.status is Status.WAITING and open_head.wake_at is None for open_head in open_now
            )
            if for_ever and not self._loop.calls:
                deepest = [
                    open_head for open_head in open_now if open_head.wait_reason is not WaitReason.CHILD
                ]
                return str(deepest[0].wait_reason), deepest[0].job_id
            await self.moved.wait()

    async def _skip_time(self) -> bool:
        if self._loop.calls:
            return False
        left_us = await find_idle_us(self.store, self.clock, self._is_gone)
        if left_us is None:
            return False
        self.clock.advance_us(left_us)
        if left_us >= LEASE_TTL_US:
            for worker in filter(self._is_gone, self.lives):
                await self.store.leases.expire(worker)
        for queue in self._setting.queues:
            self.store.wakeups.hint(f"queue:{queue}")
        return True

    def _is_gone(self, worker: str) -> bool:
        return self.lives[worker].process.dead


def simulate_run(setting: RunSettings, cuts: Sequence[PassedPoint] = ()) -> RunResult:
    """Run the agent from its start to its end, with successive workers killed at `cuts`."""
    worker_errors = WorkerErrors()
    with KitLoop() as loop, worker_errors.listening():
        stage = SimulatedRun(setting, loop, cuts)
        try:
            played = loop.run_until_complete(stage.run())
        except Deadlock as stuck:
            played = _make_stuck_result(stage, str(stuck))
        if worker_errors.errors:
            played = msgspec.structs.replace(played, stopped=worker_errors.errors[0])
    for thread in threading.enumerate():
        if thread.name == "holdfast-call":
            thread.join(THREADS_S)
    return played


def _make_stuck_result(stage: SimulatedRun, why: str) -> RunResult:
    return RunResult(
        passed=[life.passed for life in stage.lives.values()],
        reached=stage.reached,
        calls=stage.calls,
        said=[],
        output=None,
        stopped=why,
    )


def _describe_events(args: tuple[Any, ...]) -> str:
    """The events of a write, in short."""
    appends = args[0] if args and isinstance(args[0], list | tuple) else ()
    names = [
        _describe_event(event) for append in appends if isinstance(append, Append) for event in append.events
    ]
    return ", ".join(dict.fromkeys(names))


def _describe_event(sealed: SealedEvent) -> str:
    event = unseal(sealed)
    return f"{sealed.type} {_get_step_name(event)}".strip()


def _get_step_name(event: Event) -> str:
    """The tool or step of an event."""
    key: str = getattr(event, "step_key", "")
    return key.rpartition("/")[2].rpartition("#")[0]
