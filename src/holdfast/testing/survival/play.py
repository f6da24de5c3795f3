"""One play of an agent: a store of its own, a worker that may be cut off at one point, and another that goes on.

What is called is counted where every call passes, whatever made it a call: a tool, a step, a model. A call that was
begun comes to its end even if its worker dies meanwhile, as a request does that has left the house; so it is always
known what really happened, and whoever is asked can say it.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.engine.audit_hook import make_io_monitor
from holdfast.engine.durable_call import DurableCall, ProbeResult
from holdfast.engine.evidence import Looker
from holdfast.engine.execution import Execution
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.runner_config import Program, RunnerConfig
from holdfast.model.append import Append
from holdfast.model.events import Event, JobCompleted
from holdfast.model.hash_chain import SealedEvent, unseal
from holdfast.model.ids import SequentialIds
from holdfast.model.lease import LEASE_TTL_US
from holdfast.model.side_effects import ProbeAnswer
from holdfast.model.states import HELD, TERMINAL, Status, WaitReason
from holdfast.store.contract import Store
from holdfast.store.intercepted import Call, InterceptedStore
from holdfast.store.memory.store import MemoryStore
from holdfast.testing.simulated_process import SimulatedProcess
from holdfast.testing.survival.facts import Made, Passed, Played, Setting
from holdfast.testing.survival.loop import KitLoop
from holdfast.testing.survival.people import People
from holdfast.testing.time_skipping import TimeSkippingClock, heads, idle_for_us
from holdfast.testing.virtual_loop import Deadlock, LoopClock
from holdfast.testing.worker_errors import WorkerErrors
from holdfast.worker.worker import Worker

READS: Final = frozenset(
    "attempts counts find get has head list list_expired load node owners read read_many since_commit timers "
    "wait".split()
)
"""Calls of the store that leave everything as it is: to die there is to die after the write before."""

RENEWALS: Final = frozenset({"leases.beat", "leases.expire", "leases.start"})
"""Calls that keep the leases of workers, and change no job: to die there is to die after the write before."""

THREADS_S: Final = 10.0

_FOUND: Final = {
    ProbeAnswer.HAPPENED: "it had happened",
    ProbeAnswer.NOT_HAPPENED: "it had not happened",
    ProbeAnswer.CANNOT_TELL: "nobody could tell",
}


class _Life:
    """A worker's process from its start to its end, which comes at `cut` if there is one."""

    def __init__(self, process: SimulatedProcess, cut: Passed | None, died: Callable[[Passed], None]) -> None:
        self.process = process
        self.passed: list[Passed] = []
        self._cut = cut
        self._died = died
        self._times: Counter[str] = Counter()

    def meet(self, point: str, step: str) -> None:
        """The process is at this point, and dies there if it was told to."""
        if self.process.dead:
            return
        self._times[point] += 1
        here = Passed(point, self._times[point], step)
        self.passed.append(here)
        if self._cut is not None and (here.point, here.nth) == (self._cut.point, self._cut.nth):
            self.process.kill()
            self._died(here)

    def forget(self, count: int) -> None:
        """The last points were those of a call that changed nothing."""
        if not self.process.dead:
            del self.passed[-count:]


class _Store(InterceptedStore):
    """The store as one worker sees it."""

    def __init__(self, store: Store, life: _Life, moved: asyncio.Event) -> None:
        super().__init__(store, self._led)
        self._life = life
        self._moved = moved
        self.wakeups = store.wakeups

    async def _led(self, name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        life = self._life
        await life.process.must_live()
        if name.rpartition(".")[2] in READS or name in RENEWALS:
            return await call(*args, **options)
        life.meet(f"{name}:before", _about(args))
        await life.process.must_live()
        result = await call(*args, **options)
        life.meet(f"{name}:after", _about(args))
        if name == "leases.claim" and not result:
            life.forget(2)
        self._moved.set()
        await life.process.must_live()
        return result


class Play:
    """`cuts`: where the first worker dies, the second, and so on."""

    def __init__(self, setting: Setting, loop: KitLoop, cuts: Sequence[Passed]) -> None:
        self.clock = TimeSkippingClock(LoopClock(loop))
        self.store = MemoryStore(self.clock, SequentialIds(1))
        self.lives: dict[str, _Life] = {}
        self.reached: list[Passed] = []
        self.calls: list[Made] = []
        self.moved = asyncio.Event()
        self._setting = setting
        self._loop = loop
        self._cuts = list(cuts)
        self._ids = SequentialIds(2)
        self._said: list[str] = []
        self._people = People(self.store, setting, self.calls, self._said)

    # ── workers ───────────────────────────────────────────────────────────────────────────────────

    def _start(self) -> None:
        """One more worker, in a process of its own."""
        number = len(self.lives)
        process = self._loop.process(f"worker-{number + 1}")
        cut = self._cuts[number] if number < len(self._cuts) else None
        life = self.lives[process.name] = _Life(process, cut, self._died)
        store = _Store(self.store, life, self.moved)
        looker = Looker(Path.cwd())

        async def inspect(pack: Any) -> Any:
            return looker.look_at_all(pack)

        desk = RunnerConfig(
            store,
            GroupCommit(store.journal),
            self.clock,
            {kind: self._led(process, program) for kind, program in self._setting.programs.items()},
            strict=self._setting.strict,
            points=lambda point, tool: life.meet(str(point), tool),
            inspect=inspect,
            io_monitor=make_io_monitor(self._setting.on_undurable),
        )
        worker = Worker(desk, process.name, lambda: self._ids.new("claim"), queues=self._setting.queues)
        process.start(worker.work())

    def _died(self, here: Passed) -> None:
        """Another comes."""
        self.reached.append(here)
        self._loop.root.call_later(0.0, self._start)
        self._loop.root.call_later(0.0, self.moved.set)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _led(self, process: SimulatedProcess, program: Program) -> Program:
        async def led(drive: Execution, given: Any) -> Any:
            ours: Any = drive
            ours.call = functools.partial(self._call, drive.call)
            ours.perform = functools.partial(self._perform, process, drive.perform)
            return await program(drive, given)

        return led

    async def _call(self, call: Callable[..., Awaitable[Any]], asked: DurableCall, *met: Any) -> Any:
        """The call, made so that it is seen when its receiver is asked about it."""
        probe = asked.terms.probe
        if probe is None:
            return await call(asked, *met)

        async def looked_up(key: str, args: Any) -> ProbeResult:
            with self._under_way():
                probed = await probe(key, args)
            self._said.append(f"{asked.name} was looked up: {_FOUND[probed.answer]}")
            return probed

        async def seen(key: str, args: Any) -> ProbeResult:
            probed: ProbeResult = await self._loop.root.adopt(looked_up(key, args))
            return probed

        terms = msgspec.structs.replace(asked.terms, probe=seen)
        return await call(msgspec.structs.replace(asked, terms=terms), *met)

    async def _perform(
        self,
        process: SimulatedProcess,
        perform: Callable[..., Awaitable[tuple[Any, Exception | None]]],
        asked: DurableCall,
        place: Any,
        step_key: str,
        key: str = "",
        longest_us: int | None = None,
    ) -> tuple[Any, Exception | None]:
        await process.must_live()
        made = Made(asked.name, asked.args, key, asked.terms.effect, asked.terms.relaunch)

        async def to_its_end(key: str) -> Any:
            return await self._loop.root.adopt(self._made(made, asked.run, key))

        outlasting = msgspec.structs.replace(asked, run=to_its_end)
        return await perform(outlasting, place, step_key, key, longest_us)

    async def _made(self, made: Made, run: Callable[[str], Awaitable[Any]], key: str) -> Any:
        made.key = key
        self.calls.append(made)
        with self._under_way():
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
    def _under_way(self) -> Iterator[None]:
        self._loop.calls += 1
        try:
            yield
        finally:
            self._loop.calls -= 1
            self.moved.set()

    # ── the play ──────────────────────────────────────────────────────────────────────────────────

    async def play(self) -> Played:
        job_id = await self._begun()
        self._start()
        stopped, where = await self._to_the_end(job_id)
        last = unseal((await self.store.journal.read(where))[-1])
        return Played(
            passed=[life.passed for life in self.lives.values()],
            reached=self.reached,
            calls=self.calls,
            said=self._said,
            output=await self._output(last),
            stopped=stopped,
            report=getattr(last, "report", None) or getattr(last, "causes", None),
        )

    async def _begun(self) -> str:
        draft, message = self._setting.draft, self._setting.message
        if message is None:
            return (await self.store.jobs.submit(draft)).job_id
        return (await self.store.inbox.deliver(message, draft)).batch_id

    async def _output(self, last: Event) -> Any:
        """What came out: of a turn, everything that was said in its session."""
        if not isinstance(last, JobCompleted) or self._setting.message is None:
            return last.output if isinstance(last, JobCompleted) else None
        view = await self.store.sessions.load(self._setting.message.session_id)
        return None if view is None else [node.body for node in view.graph.nodes]

    async def _to_the_end(self, job_id: str) -> tuple[str | None, str]:
        """Why it goes no further (None if the job completed), and which job says so: it, or one of its children."""
        while True:
            self.moved.clear()
            head = await self.store.jobs.head(job_id)
            if head.status in TERMINAL:
                return (None if head.status is Status.COMPLETED else str(head.status)), job_id
            open_now = [one async for one in heads(self.store)]
            for one in open_now:
                if one.wait_reason in HELD:
                    return str(one.wait_reason), one.job_id
            if await self._people.act(open_now) or await self._leap():
                continue
            for_ever = all(one.status is Status.WAITING and one.wake_at is None for one in open_now)
            if for_ever and not self._loop.calls:
                deepest = [one for one in open_now if one.wait_reason is not WaitReason.CHILD]
                return str(deepest[0].wait_reason), deepest[0].job_id
            await self.moved.wait()

    async def _leap(self) -> bool:
        if self._loop.calls:
            return False
        left_us = await idle_for_us(self.store, self.clock, self._is_gone)
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


def play(setting: Setting, cuts: Sequence[Passed] = ()) -> Played:
    """The agent has been played from its start to its end, with one worker after the other cut off there."""
    heard = WorkerErrors()
    with KitLoop() as loop, heard.listening():
        stage = Play(setting, loop, cuts)
        try:
            played = loop.run_until_complete(stage.play())
        except Deadlock as stuck:
            played = _stuck(stage, str(stuck))
        if heard.errors:
            played = msgspec.structs.replace(played, stopped=heard.errors[0])
    for thread in threading.enumerate():
        if thread.name == "holdfast-call":
            thread.join(THREADS_S)
    return played


def _stuck(stage: Play, why: str) -> Played:
    return Played(
        passed=[life.passed for life in stage.lives.values()],
        reached=stage.reached,
        calls=stage.calls,
        said=[],
        output=None,
        stopped=why,
    )


def _about(args: tuple[Any, ...]) -> str:
    """The facts that a write carries, in few words."""
    appends = args[0] if args and isinstance(args[0], list | tuple) else ()
    said = [_fact(one) for append in appends if isinstance(append, Append) for one in append.events]
    return ", ".join(dict.fromkeys(said))


def _fact(sealed: SealedEvent) -> str:
    event = unseal(sealed)
    return f"{sealed.type} {_name(event)}".strip()


def _name(event: Event) -> str:
    """The tool or step that a fact is about."""
    key: str = getattr(event, "step_key", "")
    return key.rpartition("/")[2].rpartition("#")[0]
