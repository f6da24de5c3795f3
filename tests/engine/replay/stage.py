"""A stage on which one program is played again and again: live with any timing, killed after any fact, and replayed.

The program sees the world through `look` (a read) and `act` (an effect). What it observes, and in which order, goes
into its `trace`: that is what must not change.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.engine import ready_queue
from holdfast.engine.durable_call import CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.journal_writer import Stamp
from holdfast.engine.side_effects import Owner
from holdfast.model.events import Event, JobClaimed
from holdfast.model.replay_history import history_of
from holdfast.model.side_effects import Effect
from holdfast.testing.virtual_loop import Deadlock, LoopClock, SimLoop

Journal = list[tuple[Event, int]]
"""Facts and their times."""


class Killed(SystemExit):
    """The process is gone: asyncio lets this one through and stops."""


@dataclass
class Tape:
    """A journal that is written in order, and a plug that can be pulled after so many facts."""

    events: Journal
    now_us: Callable[[], int]
    kill_after: int | None = None
    dead: bool = False

    def record(self, event: Event, at: int | None = None, **_beside: Any) -> Stamp:
        at = max(self.now_us() if at is None else at, self.events[-1][1] if self.events else 0)
        if self.dead:
            return Stamp(len(self.events), at)  # what a dead process still says is not written
        if self.kill_after is not None and len(self.events) >= self.kill_after:
            self.dead = True
            raise Killed
        self.events.append((event, at))
        return Stamp(len(self.events), at)

    async def durable(self) -> None:
        await asyncio.sleep(0)


@dataclass
class World:
    """What a program can ask and do. `delays` decide when answers come, never what they are."""

    drive: Execution
    tape: Tape
    delays: Callable[[str], float]
    trace: list[str] = field(default_factory=list)
    live: list[str] = field(default_factory=list)

    def see(self, what: object) -> None:
        if not self.tape.dead:
            self.trace.append(str(what))

    async def look(self, name: str, *args: Any, raises: tuple[type[Exception], ...] = ()) -> Any:
        return await self._call("look", name, args, Effect.READ_ONLY, raises)

    async def act(self, name: str, *args: Any) -> Any:
        return await self._call(name, name, args, Effect.UNSAFE, ())

    async def _call(
        self, call: str, name: str, args: tuple[Any, ...], effect: Effect, raises: tuple[type[Exception], ...]
    ) -> Any:
        async def run(_key: str) -> Any:
            self.live.append(name)
            await asyncio.sleep(self.delays(name))
            if name.startswith("bad"):
                raise LookupError(f"{name} is bad")
            return ":".join(map(str, (name, *args)))

        return await self.drive.call(DurableCall(call, [name, *args], run, CallPolicy(effect=effect), raises))


Program = Callable[[World], Coroutine[Any, Any, Any]]


@dataclass
class Played:
    """One run: what it returned (or how it ended), what it saw, what it did for real, and the journal after it."""

    output: Any
    trace: list[str]
    live: list[str]
    journal: Journal


def play(
    program: Program,
    *,
    seed: int,
    journal: Journal | tuple[()] = (),
    kill_after: int | None = None,
    hidden: bool = False,
) -> Played:
    """The program on top of what the journal says, with delays that the seed decides."""
    chance = random.Random(seed)
    with SimLoop() as loop, _queue_hidden(hidden):
        clock = LoopClock(loop)
        loop._virtual.now = journal[-1][1] / 1e6 - clock.wall_us() / 1e6 if journal else 0.0
        tape = Tape(list(journal), clock.wall_us, kill_after)
        if not journal:
            tape.events.append((JobClaimed("worker"), clock.wall_us()))
        facts = [(seq, event, at) for seq, (event, at) in enumerate(tape.events, 1)]
        drive = Execution(history_of(facts), tape, clock, Owner("default", "job_1", 1))
        world = World(drive, tape, lambda _: chance.choice([0, 0, 0.1, 0.5, 1, 2]))

        async def run() -> Any:
            return await drive.run(lambda: program(world))

        try:
            output = loop.run_until_complete(run())
        except (Exception, Killed) as error:
            output = error
        _clear(loop)
    return Played(output, world.trace, world.live, tape.events)


@contextlib.contextmanager
def _queue_hidden(hidden: bool) -> Iterator[None]:
    """The loop's ready queue cannot be looked into, as on loops that are not asyncio's own."""
    with pytest.MonkeyPatch.context() as patch:
        if hidden:
            patch.setattr(ready_queue, "NAME", "_no_such_queue")
        yield


def _clear(loop: SimLoop) -> None:
    """Nothing is left on the loop of a process that was killed in the middle."""
    loop.set_exception_handler(lambda *_: None)
    while leftover := asyncio.all_tasks(loop):
        for task in leftover:
            task.cancel()
        with contextlib.suppress(Killed, Deadlock):
            loop.run_until_complete(asyncio.wait(leftover))
    loop.run_until_complete(loop.shutdown_asyncgens())
