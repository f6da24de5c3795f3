"""A stage on which one program is played again and again: live with any timing, killed after any fact, and replayed.

The program sees the world through `look` (a read) and `act` (an effect). What it observes, and in which order, goes
into its `trace`: that is what must not change.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.engine import conductor
from holdfast.engine.asked import Asked, Terms
from holdfast.engine.drive import Drive
from holdfast.engine.effects import Owner
from holdfast.model.effects import Effect
from holdfast.model.events import Event
from holdfast.model.history import history_of
from holdfast.testing.simloop import Deadlock, LoopClock, SimLoop

Journal = list[Event]


class Killed(SystemExit):
    """The process is gone: asyncio lets this one through and stops."""


@dataclass
class Tape:
    """A journal that is written in order, and a plug that can be pulled after so many facts."""

    events: Journal
    kill_after: int | None = None
    dead: bool = False

    def record(self, event: Event, **_beside: Any) -> int:
        if self.dead:
            return len(self.events)  # what a dead process still says, nobody hears
        if self.kill_after is not None and len(self.events) >= self.kill_after:
            self.dead = True
            raise Killed
        self.events.append(event)
        return len(self.events)

    async def durable(self) -> None:
        await asyncio.sleep(0)


@dataclass
class World:
    """What a program can ask and do. `delays` decide when answers come, never what they are."""

    drive: Drive
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

        return await self.drive.call(Asked(call, [name, *args], run, Terms(effect=effect), raises))


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
    journal: Sequence[Event] = (),
    kill_after: int | None = None,
    hidden: bool = False,
) -> Played:
    """The program on top of what the journal says, with delays that the seed decides."""
    chance = random.Random(seed)
    tape = Tape(list(journal), kill_after)
    with SimLoop() as loop, _queue_hidden(hidden):
        drive = Drive(
            history_of(enumerate(tape.events, 1)), tape, LoopClock(loop), Owner("default", "job_1", 1)
        )
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
            patch.setattr(conductor, "READY", "_no_such_queue")
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
