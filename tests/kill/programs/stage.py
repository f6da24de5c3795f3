"""Stage: one play of a generated program under Holdfast, in memory and in virtual time, with faults.

Workers are simulated processes. A fault strikes at a crash point: before or after a writing call of the store, or at
one of the named points around an effect. Another worker then takes over. The receivers and the person who answers
belong to no worker and outlive them all.

    kill      nothing of the process ever runs again, not even a `finally`
    teardown  what `asyncio.run` does at its end: every task is cancelled from outside and awaited, then it is gone
    freeze    the process stands still for longer than its lease, and goes on afterwards
    drain     the worker is told to finish, gives its jobs back, and is gone

Programs whose own calls end their process are played with workers that run suspects alone (`children`).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

import holdfast as hf
from holdfast.agents.conversation import When, draft_message
from holdfast.agents.models.script import Script, script_of
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.lease_renewal import LeaseRenewal
from holdfast.engine.runner_config import Program, RunnerConfig
from holdfast.engine.telemetry import SILENT, Telemetry
from holdfast.errors import Unavailable
from holdfast.model.crash_suspects import DIED_ALONE
from holdfast.model.events import Event
from holdfast.model.hash_chain import SealedEvent, find_break, unseal
from holdfast.model.ids import SequentialIds
from holdfast.model.jobs import JobFilter, JobHead
from holdfast.model.states import HELD, TERMINAL, Status, WaitReason
from holdfast.store.contract import Store
from holdfast.store.interceptor import Call, InterceptedStore
from holdfast.store.memory.state import MemoryState
from holdfast.store.ports.wakeups import Wakeups
from holdfast.testing.simulated_process import SimulatedProcess
from holdfast.testing.virtual_loop import Deadlock, LoopClock
from holdfast.worker.isolation import IsolatedWorker, ProgressMeter
from holdfast.worker.worker import Worker
from tests.kill.programs.children import Child, SimulatedChildren
from tests.kill.programs.loops import LOOPS, LoopKind, StageLoop, Thread
from tests.kill.programs.oracle import BUY, Death
from tests.kill.programs.person import Person
from tests.kill.programs.receivers import (
    ATTEMPTS,
    EFFECTS,
    HOLDS,
    KILLED,
    READS,
    Effect,
    Receivers,
    is_deadly,
)
from tests.kill.programs.snapshot import Snapshot, restore_snapshot, take_snapshot
from tests.kill.programs.stores import (
    READING,
    Backend,
    CountedStore,
    Memory,
    SpinningSelector,
    WaitingSelector,
    find_violations,
)

POLLS: Final = 240
"""Workers poll so many times less often than in production: hints and the stage wake them."""

STUCK_S: Final = 4_000.0
"""Nothing is written for so long although a job runs: it is stuck. No generated sleep takes as long."""

REQUESTS_MAX: Final = 100
"""No program sends so many requests, whatever befalls its workers."""

LIVES_MAX: Final = 25
"""No program costs so many processes."""

LEASE_S: Final = 900.0
"""Thirty times as long as in production, because renewals take time to simulate."""

SESSION: Final = "conversation"
BESIDE: Final = "beside"
FREEZE_S: Final = 1000.0
SILENCE_S: Final = 15.0
"""A parent kills a child process that says nothing for so long."""

TEARDOWN_S: Final = 300.0

MEMORY: Final = Memory()

Kind = Literal["kill", "teardown", "freeze", "drain"]


@dataclass(frozen=True)
class Point:
    """A crash point, the nth time that a worker passes it, and what is written there."""

    name: str
    nth: int
    about: str = field(default="", compare=False)
    state: tuple[int, int] = field(default=(0, 0), compare=False)
    """How much was written and sent by then: a kill at two points of one state leaves the same behind."""
    turn: int = field(default=0, compare=False)
    """Which turn of the loop it was: nothing else runs between two points of one turn."""

    def __str__(self) -> str:
        return f"{self.name}#{self.nth}"


@dataclass(frozen=True)
class Fault:
    """What happens to one worker, and where. `worker`: the number of its process; 0, if its place among the faults says
    it."""

    kind: Kind
    point: Point
    worker: int = 0

    def __str__(self) -> str:
        return f"--{self.kind} {self.point}" + (f"@{self.worker}" if self.worker else "")


@dataclass(frozen=True)
class Claim:
    """A worker has claimed a job: when, by the receivers' ticks, and where its journal ended then."""

    tick: int
    worker: str
    job_id: str
    head_seq: int


@dataclass
class Played:
    """What came of a play. `stopped` says why the job did not end, if it did not."""

    passed: list[list[Point]]
    struck: list[Fault]
    receivers: Receivers
    claims: list[Claim]
    journals: dict[str, list[SealedEvent]]
    job_id: str
    output: Any = None
    error: str | None = None
    stopped: str | None = None
    report: Any = None
    complaints: list[str] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    waits: list[tuple[int, str, str]] = field(default_factory=list)
    """When a job was suspended, by ticks, which worker suspended it, and its id."""
    beside: Any = None
    """The output of the job beside it; its last event, if it has not completed."""
    seconds: float = 0.0
    """Virtual time, without that of code that only spun."""

    def events(self, job_id: str | None = None) -> list[Event]:
        return [unseal(one) for one in self.journals.get(job_id or self.job_id, [])]


@dataclass
class World:
    """What the tools of a program talk to; set anew for each play."""

    loop: StageLoop | None = None
    receivers: Receivers | None = None
    over: bool = False
    block: Callable[[SimulatedProcess], None] = lambda _: None
    """The process stands still for longer than its lease, and another takes over."""
    die: Callable[[SimulatedProcess, int], None] = lambda *_: None
    """The process ends with this status, and everything that it drives is lost."""

    async def request(self, tool: str, label: str, token: str, key: str, seconds: float) -> str:
        assert self.loop is not None
        assert self.receivers is not None
        process = self.loop.process_here()
        if self.over:
            raise RuntimeError("the play is over")  # a coroutine of a dead process is being closed
        if process.dead:
            await self.loop.create_future()  # what a dead process was about to send never leaves
        await self._survive(process, label, "before")
        answer = await self.receivers.request(tool, label, token, key, seconds=seconds, worker=process.name)
        await self._survive(process, label, "after")
        if label.startswith(HOLDS) and label not in self.receivers.blocked and not process.dead:
            self.receivers.blocked.add(label)
            self.block(process)
            await process.must_live()
        return answer

    async def _survive(self, process: SimulatedProcess, label: str, moment: str) -> None:
        """A call that ends its process never gets past this."""
        assert self.receivers is not None
        status = None if process.dead else self.receivers.find_death(label, moment)
        if status is not None:
            self.receivers.deaths.append((label, process.name))
            self.die(process, status)
            await process.must_live()

    def log_question(self, messages: list[Any]) -> None:
        assert self.loop is not None
        assert self.receivers is not None
        process = self.loop.process_here()
        if not (self.over or process.dead):
            self.receivers.log_question(messages, process.name)

    def crunch(self, label: str) -> str:
        assert self.receivers is not None
        return self.receivers.crunch(label)

    def probe(self, key: str) -> hf.Happened | hf.NotHappened:
        assert self.receivers is not None
        found = self.receivers.find(key)
        return hf.NotHappened() if found is None else hf.Happened(found.result or f"{found.label}'")


class _Model(Script, frozen=True):
    """A scripted model that logs what it is asked where receivers do."""

    world: Any = None

    def find(self, messages: list[Any]) -> Any:
        self.world.log_question(messages)
        return super().find(messages)


LINES: Final = script_of(
    [
        {
            "when": BUY,
            "turn": 0,
            "text": "{said}/{turn}'",
            "delay": "700ms",
            "calls": [
                {"tool": "pay", "args": {"label": "{said}"}},
                {"tool": "look", "args": {"label": "{said}"}},
            ],
        },
        {"text": "{said}/{turn}'", "delay": "700ms"},
    ]
).lines


class Application:
    """A program's source as an application of Holdfast: loaded once, played many times."""

    def __init__(self, source: str) -> None:
        import anyio

        self.world = World()
        self.isolates = is_deadly(source)
        self.app = hf.App("memory:")
        self.names: dict[str, Any] = {
            "asyncio": asyncio,
            "anyio": anyio,
            "contextlib": contextlib,
            "contextvars": contextvars,
            "crunch": self.world.crunch,
            "llm": hf.llm(_Model(LINES, self.world)),
            "hf": hf,
            "app": self.app,
            "__name__": "program",
        }
        for tool, effect in EFFECTS.items():
            if tool in source:
                self.names[tool] = self._declare(tool, effect)
        exec(compile(source, "<program>", "exec"), self.names)  # noqa: S102 - it is ours
        self.programs: Mapping[str, Program] = self.app.programs()

    @property
    def signals(self) -> dict[str, float]:
        return dict(self.names.get("SIGNALS", {}))

    @property
    def messages(self) -> dict[str, tuple[float, When]]:
        """What is said to the session, if the program is one: when, and how it is delivered."""
        return dict(self.names.get("MESSAGES", {}))

    def _declare(self, tool: str, effect: Effect) -> Any:
        world = self.world

        async def read(label: str, token: str = "", seconds: float = 0.0) -> str:
            return await world.request(tool, label, token, "", seconds)

        async def act(label: str, token: str = "", *, key: hf.Key = hf.KEY) -> str:
            return await world.request(tool, label, token, key, 0.0)

        async def probe(key: str, args: dict[str, Any]) -> Any:
            return world.probe(key)

        if tool in ATTEMPTS:
            return self._declare_retried(tool, effect, read if effect == "read_only" else act, probe)
        if tool == "compute":
            return self.app.step(effect="read_only", name=tool)(read)
        if tool in READS:
            return self.app.tool(effect="read_only", name=tool)(read)
        if effect == "unsafe":
            return self.app.tool(name=tool)(act)  # nothing declared
        if effect == "verifiable":
            return self.app.tool(effect=effect, name=tool, probe=probe)(act)
        approve = True if tool == "wire" else None
        return self.app.tool(effect=effect, name=tool, key_lifetime="24h", approve=approve)(act)

    def _declare_retried(self, tool: str, effect: Effect, function: Any, probe: Any) -> Any:
        retry = hf.Retry(
            attempts=ATTEMPTS[tool], initial="1s", maximum="60s", multiplier=4, never=(PermissionError,)
        )
        if tool == "total":
            return self.app.step(effect="read_only", name=tool, retry=retry)(function)
        if effect == "unsafe":
            return self.app.tool(name=tool, retry=retry, sent_nothing=(ConnectionRefusedError,))(function)
        if effect == "verifiable":
            return self.app.tool(effect=effect, name=tool, probe=probe, retry=retry)(function)
        lifetime = "24h" if effect == "idempotent" else None
        return self.app.tool(effect=effect, name=tool, key_lifetime=lifetime, retry=retry)(function)


class Life:
    """One worker from its start to its end."""

    def __init__(self, stage: Stage, process: SimulatedProcess, fault: Fault | None) -> None:
        self.process = process
        self.lost_at = 0.0
        """When its lease is over, after its death, in the loop's time."""
        self.passed: list[Point] = []
        self.ending = False
        self.wakeups: _Wakeups | None = None
        self.worker: Worker | None = None
        self.child: Child | None = None
        """What its parent sees of it, if it is a child process."""
        self._stage = stage
        self.fault = fault
        self._times: Counter[str] = Counter()

    def meet(self, name: str, about: Callable[[], str]) -> None:
        """The worker is at this point; its fault strikes if this is the place."""
        if self.process.dead or self.ending:
            return
        self._times[name] += 1
        stage = self._stage
        state, turn = (stage.writes, stage.receivers.events), stage.loop.selector.turns
        here = Point(name, self._times[name], about(), state, turn)
        self.passed.append(here)
        if stage.snapshots is not None and len(stage.lives) == 1:
            stage.snapshots[here] = take_snapshot(stage, tuple(self.passed))
        if self.fault is not None and self.fault.point == here:
            self._stage.strike(self, self.fault)

    def forget(self, count: int) -> None:
        """The last points were those of a call that changed nothing."""
        if not self.process.dead:
            del self.passed[-count:]


def fault_kind(life: Life) -> Kind | None:
    return None if life.fault is None else life.fault.kind


class _Wakeups:
    """Wake-ups as one worker sees them: polled less often, and no hint is lost to a worker that is dead."""

    def __init__(self, wakeups: Any, root: SimulatedProcess) -> None:
        self._wakeups = wakeups
        self._root = root
        self._waits: set[asyncio.Task[Any]] = set()

    async def wait(self, topics: Any, timeout_s: float) -> Any:
        if timeout_s == 0:
            return await self._wakeups.wait(topics, 0)
        wait = self._root.adopt(self._wakeups.wait(topics, timeout_s * POLLS))
        self._waits.add(wait)
        wait.add_done_callback(self._waits.discard)
        return await wait

    def end(self) -> None:
        for wait in self._waits:
            wait.cancel()


class _Store(InterceptedStore):
    """The store as one worker sees it."""

    def __init__(self, store: Store, life: Life, stage: Stage) -> None:
        super().__init__(store, self._pass)
        self._life = life
        self._stage = stage
        life.wakeups = _Wakeups(store.wakeups, stage.loop.root)
        self.wakeups = cast("Wakeups", life.wakeups)

    async def _pass(self, name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        life = self._life
        await life.process.must_live()
        if name.rpartition(".")[2] in READING:
            return await call(*args, **options)
        life.meet(f"{name}:before", lambda: _describe(args))
        await self._settle()
        result = await call(*args, **options)
        self._stage.writes += name != "leases.claim" or bool(result)
        self._stage.loop.selector.progress()
        if name == "leases.claim":
            for grant in result:
                tick = self._stage.receivers.tick()
                self._stage.claims.append(Claim(tick, life.process.name, grant.job_id, grant.head_seq))
        life.meet(f"{name}:after", lambda: _describe(args))
        if name == "leases.claim" and not result:
            life.forget(2)
        elif not _is_routine(name, args):
            self._stage.note_waits(life.process.name, name, args)
            self._stage.moved.set()
        await self._settle()
        return result

    async def _settle(self) -> None:
        """The process lives; one that is being torn down gets its cancellation here."""
        await self._life.process.must_live()
        if self._life.ending:
            await asyncio.sleep(0)


class Stage:
    """One play. `faults`: what happens to the first worker, the second, and so on."""

    store: Store
    person: Person

    def __init__(
        self,
        loop: StageLoop,
        applications: Sequence[Application],
        faults: Sequence[Fault],
        *,
        strict: bool,
        backend: Backend,
        start: Snapshot | None = None,
        is_known: Callable[[Snapshot], bool] | None = None,
        snapshots: dict[Point, Snapshot] | None = None,
    ) -> None:
        self.loop = loop
        self._start = start
        self._is_known = is_known
        self.snapshots = snapshots
        self.is_over = False
        """Whether the first worker is gone and another play went on from what it left."""
        self.clock = LoopClock(loop)
        self._backend = backend
        self.moved = asyncio.Event()
        self.claims: list[Claim] = []
        self.waits: list[tuple[int, str, str]] = []
        self.struck: list[Fault] = []
        self.writes = 0
        self.complaints: list[str] = []
        self.lives: dict[str, Life] = {}
        self.receivers = Receivers(
            loop.root.adopt, refusal=hf.Refused, changed=self.moved.set, time=loop.clock_time
        )
        loop.tick = self.receivers.tick
        self._strict = strict
        self._applications = applications
        self.faults = faults
        self.ids = SequentialIds(2)
        self.signals = applications[0].signals
        self.messages = applications[0].messages
        self._is_session = bool(self.messages)
        self.pids = 0
        """How many child processes were started."""
        self.job_id = ""
        self.beside_id = ""
        for application in applications:
            world = application.world
            world.loop, world.receivers, world.over = loop, self.receivers, False
            world.block = self._block
            world.die = self._die

    # ── workers and what befalls them ─────────────────────────────────────────────────────────────

    def next_number(self) -> int:
        """The number of the next process that is started."""
        return len(self.lives) + 1

    def _start_worker(self) -> None:
        if len(self.lives) > LIVES_MAX:
            return
        life = self._start_process(f"worker-{self.next_number()}")
        desk = self._make_desk(life, SILENT)
        children = None
        if desk.isolates:
            children = SimulatedChildren(desk.store, life, self, self._start_child)
        life.worker = Worker(
            desk,
            life.process.name,
            lambda: self.ids.new("claim"),
            renewal=self._make_renewal(life),
            isolation=children,
        )
        self._set_to_work(life)

    def _start_child(self, child: Child) -> None:
        """The process is started outside its parent, which is driving a job."""
        self.loop.root.call_later(0.0, self._begin_child, child)

    def _begin_child(self, child: Child) -> None:
        if child.parent.process.dead or child.status.done():
            return
        life = child.life = self._start_process(child.name, child)
        progress = ProgressMeter()
        worker = life.worker = IsolatedWorker(
            self._make_desk(life, progress),
            child.name,
            lambda: self.ids.new("claim"),
            child.handed,
            renewal=self._make_renewal(life),
        )
        progress.subscribe(worker.clear)
        self._set_to_work(life)

    def _start_process(self, name: str, child: Child | None = None) -> Life:
        number = self.next_number()
        fault = next((one for nth, one in enumerate(self.faults, 1) if (one.worker or nth) == number), None)
        life = self.lives[name] = Life(self, self.loop.process(name), fault)
        life.child = child
        return life

    def _make_desk(self, life: Life, meter: Telemetry) -> RunnerConfig:
        store = _Store(self.store, life, self)
        application = self._applications[min(len(self.lives), len(self._applications)) - 1]
        return RunnerConfig(
            store,
            GroupCommit(store.journal, meter),
            self.clock,
            application.programs,
            strict=self._strict,
            isolates=application.isolates and life.child is None,
            points=lambda point, tool: life.meet(str(point), lambda: tool),
            meter=meter,
        )

    def _make_renewal(self, life: Life) -> LeaseRenewal:
        ttl_us = int(LEASE_S * 1_000_000)
        return LeaseRenewal(life.process.name, self.clock, lambda: self.ids.new("lease"), ttl_us=ttl_us)

    def _set_to_work(self, life: Life) -> None:
        assert life.worker is not None
        work = life.process.start(life.worker.work())
        work.add_done_callback(lambda work: self._has_ended(life, work))

    def note_waits(self, worker: str, name: str, args: tuple[Any, ...]) -> None:
        for append in args[0] if name == "journal.append_many" else ():
            if any(event.type == "job_waiting" for event in append.events):
                self.waits.append((self.receivers.tick(), worker, append.job_id))

    def strike(self, life: Life, fault: Fault) -> None:
        self.struck.append(fault)
        self._lose(life)
        if fault.kind == "kill":
            self._bury(life)
        elif fault.kind == "freeze":
            self._block(life.process)
        elif fault.kind == "drain":
            assert life.worker is not None
            life.worker.drain()
        else:
            life.ending = True
            self.loop.root.call_later(0.0, lambda: self.loop.root.start(self._tear_down(life)))

    def _lose(self, life: Life) -> None:
        """The lease of this worker is over in a while; until then nothing may be written."""
        life.lost_at = self.loop.time() + LEASE_S + 1.0
        self.loop.root.call_later(LEASE_S + 1.0, lambda: self.loop.root.start(self._expire(life)))
        self.loop.root.call_later(0.0, self.moved.set)

    def _die(self, process: SimulatedProcess, status: int) -> None:
        """A job has ended the process that drives it."""
        life = self.lives[process.name]
        self._lose(life)
        self._bury(life, status)

    def end_child(self, child: Child, status: int) -> None:
        """A child process ends at once, whoever ends it."""
        if child.life is None:
            child.end(status)
        elif not child.life.process.dead:
            self._lose(child.life)
            self._bury(child.life, status)

    def _block(self, process: SimulatedProcess) -> None:
        """The process stands still for longer than its lease; another is started. A child process is killed by its
        parent, if that lives."""
        child = self.lives[process.name].child
        if child is not None:
            process.freeze(FREEZE_S)
            self.loop.root.call_later(SILENCE_S, self._end_silent, child)
            return
        process.freeze(FREEZE_S)
        self.loop.root.call_later(LEASE_S + 1.0, self._hint)
        self.loop.root.call_later(0.0, self._start_worker)
        self.loop.root.call_later(FREEZE_S, self.moved.set)

    def _end_silent(self, child: Child) -> None:
        if not child.parent.process.dead:
            child.kill()

    def _has_ended(self, life: Life, work: asyncio.Task[None]) -> None:
        """A worker that was drained is gone, and one whose only job is over; no other ends by itself."""
        if life.ending or life.process.dead:
            return
        is_meant = life.child is not None or fault_kind(life) == "drain"
        if work.cancelled() or work.exception() is not None or not is_meant:
            self.complaints.append(f"the worker ended by itself: {work!r}")
        self._bury(life, 0 if life.child is None else life.child.exit_status)

    async def _tear_down(self, life: Life) -> None:
        """The end of `asyncio.run`: all tasks are cancelled and awaited; then the process is gone."""
        tasks = [task for owner, task in self.loop.tasks if owner is life.process and not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=TEARDOWN_S)
        self._bury(life)

    def _bury(self, life: Life, status: int = KILLED) -> None:
        """The process is gone, and its child processes with it. Another worker is started for one that was."""
        life.process.kill()
        for other in list(self.lives.values()):
            if other.child is not None and other.child.parent is life and not other.process.dead:
                self._lose(other)
                self._bury(other)
        is_alone = len(self.lives) == 1 and not (self.complaints or self.receivers.faults)
        if self._is_known is not None and is_alone:
            is_known, self._is_known = self._is_known, None
            self.is_over = is_known(take_snapshot(self, tuple(life.passed)))
            if self.is_over:
                self.loop.root.call_later(0.0, self.moved.set)
                return
        if life.wakeups is not None:
            self.loop.root.call_later(0.0, life.wakeups.end)
        if life.child is not None:
            self.loop.root.call_later(0.0, life.child.end, status)
            self.loop.root.call_later(0.0, self.moved.set)
            return
        self.loop.root.call_later(0.0, self._start_worker)
        self.loop.root.call_later(0.0, self.moved.set)

    @property
    def memory(self) -> MemoryState:
        """The tables of the memory store."""
        jobs: Any = self.store.jobs
        state: MemoryState = jobs._state
        return state

    # ── the play ──────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        self.loop.selector.calls += 1
        store = await self._backend.open(self.clock)
        self.loop.selector.calls -= 1
        selector = self.loop.selector
        self.store = store
        if isinstance(selector, WaitingSelector):
            self.store = CountedStore(store, selector, self.loop.root)
        self.person = Person(self.store, self.receivers)

    async def close(self) -> list[str]:
        """End everything; what `verify` says against a real store."""
        for application in self._applications:
            application.world.over = True
        for life in self.lives.values():
            life.process.kill()
        if not self._backend.is_real:
            return []
        self.loop.selector.calls += 1
        violations = await find_violations(self.store)
        await self.store.close()
        self.loop.selector.calls -= 1
        return violations

    async def play(self) -> Played | None:
        """The play to its end; None, if it ended early because another went on from the same snapshot."""
        await self.open()
        if self._start is not None:
            self._go_on_from(self._start)
        elif self._is_session:
            for words, (at, when) in list(self.messages.items()):
                self.loop.root.start(self._deliver(words, at, when))
            await asyncio.sleep(0)
        else:
            agent = self._applications[0].app.agents["main"]
            self.job_id = (await self.store.jobs.submit(agent.draft({}))).job_id
            if BESIDE in self._applications[0].app.agents:
                neighbour = self._applications[0].app.agents[BESIDE]
                self.beside_id = (await self.store.jobs.submit(neighbour.draft({}))).job_id
            for name, at in self.signals.items():
                self.loop.root.start(self._signal(self.job_id, name, at))
        if self._start is None:
            self._start_worker()
        stopped = await self._to_the_end()
        if self.is_over:
            return None
        while self.receivers.under_way:
            self.moved.clear()
            await self._something(1.0)
        return await self.result(stopped)

    def _go_on_from(self, snapshot: Snapshot) -> None:
        """The first worker has just been killed."""
        restore_snapshot(self, snapshot)
        self.receivers.go_on()
        for words, (at, when) in self.messages.items():
            self.loop.root.start(self._deliver(words, at, when))
        for name, at in self.signals.items():
            self.loop.root.start(self._signal(self.job_id, name, at))
        process = self.loop.process("worker-1")
        life = self.lives[process.name] = Life(self, process, self.faults[0])
        life.passed = list(snapshot.passed)
        self.strike(life, self.faults[0])

    async def result(self, stopped: str | None) -> Played:
        jobs = [record.job_id for record in await self.store.jobs.list(JobFilter(), limit=1000)]
        journals = {job: list(await self.store.journal.read(job)) for job in jobs}
        dead = [job for job, events in journals.items() if events[-1].type == "job_dead_lettered"]
        job_id = dead[0] if dead and self._is_session else self.job_id
        last: Any = unseal(journals[job_id][-1])
        played = Played(
            passed=[life.passed for life in self.lives.values()],
            struck=self.struck,
            receivers=self.receivers,
            claims=self.claims,
            journals=journals,
            job_id=job_id,
            stopped=stopped,
            seconds=self.loop.time() - self.loop.selector.spun_s,
            threads=self.loop.threads,
            waits=self.waits,
            complaints=list(self.complaints),
        )
        if self._is_session and last.type != "job_dead_lettered":
            view = await self.store.sessions.load(SESSION)
            state = None if view is None else view.checkpoint.execution_state
            played.output = None if state is None else json.loads(state)
        elif last.type == "job_completed":
            played.output = last.output
        elif last.type == "job_dead_lettered":
            error = last.causes[0].get("error")
            played.error, played.report = (error or {}).get("type", "no error"), last.causes
            if str(last.causes[0].get("why")).startswith(DIED_ALONE):
                played.error = Death.__name__
        elif last.type == "job_parked":
            played.report = last.report
        if self.beside_id:
            end: Any = unseal(journals[self.beside_id][-1])
            played.beside = end.output if end.type == "job_completed" else str(end)
        for job, events in journals.items():
            broken = find_break(job, events)
            if broken is not None:
                played.complaints.append(f"the hash chain of {job} breaks at event {broken}")
        return played

    async def _to_the_end(self) -> str | None:
        """Why the job goes no further; None, if it ended."""
        while True:
            self.moved.clear()
            if self.is_over:
                return None
            if len(self.receivers.requests) > REQUESTS_MAX:
                return f"stuck: {REQUESTS_MAX} requests were sent, and there is no end"
            ended = self.loop.selector.ended
            heads = await self._heads()
            head = next((one for one in heads if one.job_id == self.job_id or self._is_session), None)
            if len(self.lives) > LIVES_MAX:
                return f"stuck: it has cost {LIVES_MAX} processes, and there is no end"
            beside = next((one for one in heads if one.job_id == self.beside_id), None)
            is_over = _is_dead(head) if head is not None else not self.messages
            if is_over and (beside is None or _is_dead(beside)):
                return None
            for one in heads:
                if one.wait_reason in HELD and not (_is_dead(one) and one in (head, beside)):
                    return f"{one.wait_reason}"
            if await self.person.act(heads) or await self._skip(heads, ended):
                continue
            if self._is_over(heads):
                return f"stuck: waits for {heads[0].wait_reason} for ever"
            writes = self.writes
            if not await self._something(STUCK_S) and self.writes == writes:
                status = heads[0].status if heads else "over"
                return f"stuck: {status}, and nothing happens any more"

    async def _deliver(self, words: str, at: float, when: When) -> None:
        """Say this to the session at this time."""
        if at > self.loop.time():
            await asyncio.sleep(at - self.loop.time())
        del self.messages[words]
        agent = self._applications[0].app.sessions["main"]
        message, draft = draft_message(agent, SESSION, words, id=words, when=when)
        delivered = await self.store.inbox.deliver(message, draft)
        self.job_id = self.job_id or delivered.batch_id
        self.moved.set()

    async def _something(self, seconds: float) -> bool:
        """Wait until something has changed; whether it did within this time."""
        timer = self.loop.call_later(seconds, self.moved.set)
        await self.moved.wait()
        timer.cancel()
        return self.loop.time() < timer.when()

    async def _heads(self) -> list[JobHead]:
        """Every job that has not ended."""
        if not self._backend.is_real:
            rows = sorted(self.memory.tables.jobs.items(), reverse=True)
            return [row.head for _, row in rows if row.head.status not in TERMINAL]
        records = await self.store.jobs.list(JobFilter(), limit=1000)
        return [
            await self.store.jobs.head(record.job_id) for record in records if record.status not in TERMINAL
        ]

    def _is_over(self, heads: Sequence[JobHead]) -> bool:
        """Whether nothing can ever happen any more."""
        if self.signals or self.messages or self.receivers.under_way:
            return False
        return all(one.status is Status.WAITING and one.wake_at is None for one in heads)

    async def _skip(self, heads: Sequence[JobHead], ended: int) -> bool:
        """Move the clock to the next thing that is due, if nobody is at work until then. `ended`: so many writes had
        ended when the heads were read."""
        selector = self.loop.selector
        if self.receivers.under_way:
            return False
        if isinstance(selector, WaitingSelector) and selector.calls:
            selector.when_idle = self.moved.set  # what a dead worker has sent may still change what is due
            return False
        if selector.ended != ended:
            return True  # they are other heads by now
        due = [self._due(head) for head in heads]
        if any(head.status is Status.RUNNING and self._due(head) is None for head in heads):
            return False
        said = [at for at, _ in self.messages.values()]
        known = [one for one in [*due, *self.signals.values(), *said] if one is not None]
        if not known or min(known) <= self.loop.time():
            return False  # nothing is, or it is due already and seen soon
        selector.now = min(known)
        self._hint()
        return True

    async def _expire(self, life: Life) -> None:
        """The lease of a dead worker is over, as another worker would find after the lease time."""
        if life.process.dead:
            await self.store.leases.expire(life.process.name)
            self.moved.set()
        self._hint()

    def _hint(self) -> None:
        """Tell all workers that there may be something to do."""
        wakeups: Any = self.store.wakeups
        wakeups.hint("queue:default")

    def _due(self, head: JobHead) -> float | None:
        """When something happens to this job by itself, in the loop's time. None: it runs, or waits for others."""
        start = self.clock.wall_us() - self.clock.tick_us()
        if head.status is Status.PENDING:
            return (head.ready_at - start) / 1_000_000
        if head.status is Status.RUNNING:
            life = self.lives[head.lease_owner]
            if life.child is not None and not life.child.parent.process.dead:
                return None  # its parent writes down how it ended
            return life.lost_at if life.process.dead and head.lease_expires_at else None
        return None if head.wake_at is None else (head.wake_at - start) / 1_000_000

    async def _signal(self, job_id: str, name: str, at: float) -> None:
        await asyncio.sleep(at - self.loop.time())
        del self.signals[name]
        await self.person.signal(job_id, name)
        self.moved.set()


def _is_dead(head: JobHead) -> bool:
    return head.wait_reason is WaitReason.DEAD_LETTER


class _Log(logging.Handler):
    """What workers log as errors. That a store was away is none."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, Unavailable):
            self.errors.append(f"{record.getMessage()} {error!r}")

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        log = logging.getLogger("holdfast")
        propagated, log.propagate = log.propagate, False
        log.addHandler(self)
        try:
            yield
        finally:
            log.removeHandler(self)
            log.propagate = propagated


def play(
    applications: Sequence[Application],
    faults: Sequence[Fault] = (),
    *,
    strict: bool = False,
    loop_kind: LoopKind = "",
    backend: Backend = MEMORY,
    start: Snapshot | None = None,
    is_known: Callable[[Snapshot], bool] | None = None,
    snapshots: dict[Point, Snapshot] | None = None,
) -> Played | None:
    """Play the program to its end. The first worker runs the first application, those after it the second.

    `start`: the first worker was killed here. `is_known`: says of what the first worker left whether another play went
    on from it; then this one does not, and is None. `snapshots` is filled with one for each point that workers pass.
    """
    log = _Log()

    def may_end(snapshot: Snapshot) -> bool:
        return not log.errors and is_known is not None and is_known(snapshot)

    selector = WaitingSelector() if backend.is_real else SpinningSelector()
    with LOOPS[loop_kind](selector) as loop, log.attached():
        stage = Stage(
            loop,
            applications,
            faults,
            strict=strict,
            backend=backend,
            start=start,
            is_known=None if is_known is None else may_end,
            snapshots=snapshots,
        )
        try:
            played = loop.run_until_complete(stage.play())
        except Deadlock as stuck:
            played = loop.run_until_complete(stage.result(f"stuck: {stuck}"))
        complaints = [*log.errors, *loop.run_until_complete(stage.close())]
        if played is not None:
            played.complaints += complaints
        return played


ROUTINE: Final = frozenset(
    "tool_called tool_returned tool_failed step_finished call_cancelled timer_set timer_fired signal_taken".split()
)
"""Facts that nobody outside the worker has to act upon."""


def _is_routine(name: str, args: tuple[Any, ...]) -> bool:
    """Whether nothing of this write concerns the person, or how the job stands."""
    if name != "journal.append_many":
        return False
    return all(event.type in ROUTINE for append in args[0] for event in append.events)


def _describe(args: tuple[Any, ...]) -> str:
    """The facts that a write carries."""
    appends = args[0] if args and isinstance(args[0], list | tuple) else ()
    types = [event.type for append in appends for event in getattr(append, "events", ())]
    return ", ".join(types)
