"""One run of one job: its function from the top, with everything that is recorded handed back instead of done again.

    asked for, recorded           the record, in its turn
    asked for, not recorded       done now; the fact is recorded, and handed over in its turn
    recorded with other arguments a read runs again; an effect parks the job
    recorded, not asked for       an effect: nothing new may fire; if the code comes to rest like that, the job parks

So changed code is noticed before it acts, and a renamed function cannot send a second mail.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from holdfast.engine import failures, places
from holdfast.engine.conductor import JOB, Conductor
from holdfast.engine.places import Place
from holdfast.model import canonical
from holdfast.model.effects import CallStatus, Effect
from holdfast.model.events import CallCancelled, Event, StepFinished, ToolCalled, ToolFailed, ToolReturned
from holdfast.model.history import History, Recorded
from holdfast.model.naming import Scope


class Recorder(Protocol):
    """Where a run's facts go. They are in order at once, and durable soon."""

    def record(self, event: Event) -> int:
        """The seq of the event, which is in the job's journal or will be, after all that were recorded before."""
        ...

    async def durable(self) -> None:
        """Everything recorded so far is on disk."""
        ...


class Asked(msgspec.Struct, frozen=True):
    """A call as the code makes it."""

    name: str
    args: Any
    run: Callable[[], Awaitable[Any]]
    effect: Effect = Effect.UNSAFE
    raises: tuple[type[Exception], ...] = ()


class Parked(Exception):
    """The code does not fit its journal, and going on could act twice. `.report` says what differs."""

    def __init__(self, report: dict[str, Any]) -> None:
        super().__init__(report["why"])
        self.report = report


class Drive:
    """The run. Its tasks are found again by `places`; the order of results is the conductor's."""

    def __init__(self, history: History, recorder: Recorder, *, strict: bool = False) -> None:
        self.history = history
        self.recorder = recorder
        self._strict = strict
        self._tasks: set[asyncio.Task[Any]] = set()
        self._running = 0
        self._held: list[tuple[Asked, str, asyncio.Future[None]]] = []
        self._parked: Parked | None = None
        self._stopping = False

    async def run(self, body: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What the job's function returned or raised; or Parked."""
        loop = asyncio.get_running_loop()
        places.watch(loop)
        self._conductor = Conductor(loop, self, self._at_rest)
        context = contextvars.copy_context()
        context.run(JOB.set, self)
        root = loop.create_task(body(), context=context)
        places.put(root, Place(self, Scope(str(self.history.ordinal))))
        try:
            return await root
        except asyncio.CancelledError:
            if self._parked is not None:
                raise self._parked from None
            raise
        finally:
            self._stopping = True
            for task in self._tasks:
                task.cancel()

    def joined(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    async def call(self, asked: Asked) -> Any:
        """The outcome of the call, from the record or from doing it."""
        if self._stopping:
            raise asyncio.CancelledError  # code that cleans up while it is stopped starts nothing
        place = places.outside_calls()
        key = place.scope.key(asked.name)
        digest = canonical.hex_digest(canonical.encode(asked.args))
        recorded = self.history.find(key, digest)
        if recorded is not None and recorded.settled:
            return await self._again(recorded, asked)
        drifted = self.history.drifted(key, digest)
        if drifted is not None and drifted.effect is not Effect.READ_ONLY:
            self._park("a recorded call was made with other arguments", [drifted], asked, key)
            await asyncio.get_running_loop().create_future()
        generation = self.history.next_generation(key)
        if asked.effect is Effect.READ_ONLY:
            return await self._read(asked, place, key, digest, generation)
        return await self._act(asked, place, key, digest, generation)

    async def _again(self, recorded: Recorded, asked: Asked) -> Any:
        """What the code saw the first time."""
        if recorded.cancelled_seq is not None:
            await self._conductor.never(recorded.cancelled_seq)
        assert recorded.seq is not None
        await self._turn(recorded.seq)
        if recorded.status is CallStatus.FAILED:
            raise failures.recorded(recorded.error, asked.raises)
        return recorded.result

    async def _read(self, asked: Asked, place: Place, key: str, digest: str, generation: int) -> Any:
        with self._noting_cancel(key, digest, generation):
            value, error = await self._run(asked, place, key)
            outcome = "succeeded" if error is None else "failed"
            told = None if error is None else failures.told(error)
            seq = self.recorder.record(
                StepFinished(key, digest, outcome=outcome, result=value, error=told, generation=generation)
            )
            await self._handed_over(seq)
        return _outcome(value, error, asked)

    async def _act(self, asked: Asked, place: Place, key: str, digest: str, generation: int) -> Any:
        await self._clear(asked, key)
        self.recorder.record(
            ToolCalled(key, asked.name, asked.effect, digest, key=key, generation=generation, args=asked.args)
        )
        await self.recorder.durable()
        with self._noting_cancel(key, digest, generation):
            value, error = await self._run(asked, place, key)
            settled = (
                ToolReturned(key, generation, result=value)
                if error is None
                else ToolFailed(key, generation, error=failures.told(error))
            )
            await self._handed_over(self.recorder.record(settled))
        return _outcome(value, error, asked)

    async def _run(self, asked: Asked, place: Place, key: str) -> tuple[Any, Exception | None]:
        """The call's own code has run. Its value is what a replay will give, from the first time on."""
        self._running += 1
        try:
            with place.within(key):
                value = await asked.run()
            return canonical.decode_stored(canonical.encode(value)), None
        except Exception as error:
            return None, error
        finally:
            self._running -= 1

    @contextmanager
    def _noting_cancel(self, key: str, digest: str, generation: int) -> Iterator[None]:
        """That the code gave the call up is a fact, unless it is we who stop the code."""
        try:
            yield
        except asyncio.CancelledError:
            if not self._stopping:
                self.recorder.record(CallCancelled(key, digest, generation=generation))
                self._conductor.look()
            raise

    async def _handed_over(self, seq: int) -> None:
        if self._strict:
            await self.recorder.durable()
        await self._turn(seq)

    async def _turn(self, seq: int) -> None:
        """A lone task is always next: nothing else of its job could run before it."""
        if len(self._tasks) > 1:
            await self._conductor.turn(seq)

    # ── drift ─────────────────────────────────────────────────────────────────────────────────────

    async def _clear(self, asked: Asked, key: str) -> None:
        """Nothing recorded is left that the code might mean by this call under another name."""
        if not self.history.has_unclaimed:
            return
        cleared = asyncio.get_running_loop().create_future()
        self._held.append((asked, key, cleared))
        self._conductor.look()
        await cleared

    def _at_rest(self) -> None:
        """Every task waits, and nothing can be handed over."""
        if not self._held or self._running:
            return
        held, self._held = self._held, []
        if self.history.has_unclaimed:
            asked, key, _ = held[0]
            why = "a recorded effect is not asked for any more, and another is about to fire"
            self._park(why, self.history.unclaimed(), asked, key)
            return
        for _, _, cleared in held:
            if not cleared.done():
                cleared.set_result(None)

    def _park(self, why: str, recorded: list[Recorded], asked: Asked, key: str) -> None:
        self._parked = Parked(
            {
                "why": why,
                "recorded": [
                    {"step_key": one.step_key, "name": one.name, "args_digest": one.args_digest}
                    for one in recorded
                ],
                "attempted": {"step_key": key, "name": asked.name, "args": asked.args},
            }
        )
        self._stopping = True
        for task in self._tasks:
            task.cancel()


def _outcome(value: Any, error: Exception | None, asked: Asked) -> Any:
    if error is not None:
        raise failures.raised(error, asked.raises)
    return value
