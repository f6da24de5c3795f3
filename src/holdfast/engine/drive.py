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
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

from holdfast.engine import failures, places, timeouts
from holdfast.engine.asked import Asked, digest_of, written
from holdfast.engine.conductor import JOB, Conductor, Timer
from holdfast.engine.effects import Acts, Owner
from holdfast.engine.endings import Failed, Stopped, Uncovered, output_of, parked
from holdfast.engine.meter import SILENT, Meter
from holdfast.engine.performing import performed
from holdfast.engine.places import Place
from holdfast.engine.points import Points, nothing
from holdfast.engine.recorder import Recorder
from holdfast.engine.waits import Waits
from holdfast.model.append import NOTHING, Extras
from holdfast.model.chain import body_of_step
from holdfast.model.effects import CallStatus, Effect
from holdfast.model.events import CallCancelled, Event, StepFinished
from holdfast.model.history import History, Recorded
from holdfast.model.naming import Scope
from holdfast.store.clock import Clock

if TYPE_CHECKING:
    from holdfast.engine.budgets import Purse
    from holdfast.engine.checkpoints import Inspector
    from holdfast.engine.streams import Outlet
    from holdfast.store.contract import Store

CANCEL_AGAIN_S: Final = 1.0
Met: TypeAlias = tuple[Place, str, str, Recorded | None]


class Drive:
    """The run. Its tasks are found again by `places`; the order of results is the conductor's."""

    def __init__(
        self,
        history: History,
        recorder: Recorder,
        clock: Clock,
        owner: Owner,
        *,
        strict: bool = False,
        points: Points = nothing,
        covered: Callable[[], bool] = lambda: True,
        inspect: Inspector | None = None,
        gone: Callable[[str], bool] = lambda _worker: False,
        host_clock: Clock | None = None,
        unsure_us: int = 0,
        dead: dict[str, int] | None = None,
        outlet: Outlet | None = None,
    ) -> None:
        self.history = history
        self.recorder = recorder
        self.clock = clock
        self.host_clock = clock if host_clock is None else host_clock
        self._unsure_us = unsure_us
        self.owner = owner
        self.inspect = inspect
        self.outlet = outlet
        self._gone = gone
        self._dead = {} if dead is None else dead
        self.acts = Acts(self, points)
        self._strict = strict
        self._covered = covered
        self._tasks: set[asyncio.Task[Any]] = set()
        self.running = 0
        self._held: dict[asyncio.Future[None], tuple[Asked, str]] = {}
        self._ending: Exception | None = None
        self._winding_down: Exception | None = None
        self.stopping = False
        self._recovering: set[str] = set()
        self.waits = Waits(clock, self.look)
        self._raised: list[tuple[Exception, str]] = []
        self.store: Store | None = None
        self.meter: Meter = SILENT
        self.ends_with: tuple[Event, Extras] | None = None  # what goes with `job_completed`: a turn
        self.purse: Purse | None = None

    async def run(self, body: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What the job's function returned; or Failed, Parked, Asleep, or whatever `stop` was called with."""
        loop = asyncio.get_running_loop()
        timeouts.watch(loop)
        places.watch(loop)
        self._conductor = Conductor(loop, self, self._at_rest)
        context = contextvars.copy_context()
        context.run(JOB.set, self)
        root = loop.create_task(body(), context=context)
        places.put(root, Place(self, Scope(str(self.history.ordinal))))
        try:
            # Not awaited itself: whoever cancels this run ends the code, and that is not a decision of the code.
            await places.over(loop, root)
        except asyncio.CancelledError:
            await self._all_ended()
            raise
        await self._all_ended()
        return output_of(root, self._ending, self._raised)

    async def _all_ended(self) -> None:
        """None of the code runs any more. What caught its end and went on is ended again."""
        self._end_tasks()
        while self._tasks:
            await asyncio.wait(self._tasks, timeout=CANCEL_AGAIN_S)
            self._end_tasks()

    def stop(self, ending: Exception) -> None:
        """The code is ended where it stands; `run` raises this, whatever the code says."""
        self._ending = self._ending or ending
        self._end_tasks()

    def wind_down(self, ending: Exception) -> None:
        """What runs comes to its end, nothing new is begun, and at that boundary the run ends as by `stop`."""
        self._winding_down = ending
        self.look()

    def _end_tasks(self) -> None:
        self.stopping = True
        for task in list(self._tasks):
            task.cancel()

    def must_go_on(self) -> None:
        """The run is not being ended; or Stopped. Asked right before a first byte, because ending takes a moment."""
        if self.stopping:
            raise Stopped

    def must_be_covered(self) -> None:
        """The lease lasts long enough to start something; otherwise the run ends here, and somebody else goes on."""
        self.must_go_on()
        if not self._covered():
            self.stop(Uncovered("the lease is about to end, and could not be renewed"))
            raise Stopped

    def joined(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def timer(self, timer: Timer) -> Callable[[], None]:
        return self._conductor.timer(timer)

    def look(self) -> None:
        """Something has changed: once the code has come to rest, it is seen what comes next."""
        self._conductor.look()

    @property
    def alone(self) -> bool:
        """Whether one task is all there is of the job's code."""
        return len(self._tasks) == 1

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def place(self) -> Place:
        """Where the job's code stands that asks for something now; or Stopped, or the error that says it may not."""
        if self.stopping:
            raise Stopped
        return places.outside_calls()

    def meet(self, name: str, identity: Any) -> Met:
        """The next call of this name: where it is made, its key, its digest, and what is recorded of it."""
        if self.stopping:
            raise Stopped
        place = places.outside_calls()
        key = place.scope.key(name)
        digest = digest_of(identity)
        return place, key, digest, self.history.find(key, digest)

    def recalls(self, recorded: Recorded | None) -> TypeGuard[Recorded]:
        """Whether the code simply gets this result: a long replay is made of these."""
        if recorded is None or recorded.seq is None or recorded.error is not None or len(self._tasks) != 1:
            return False
        if recorded.cancelled_seq is not None:
            return False
        self.meter.replayed()
        return True

    async def call(self, asked: Asked, met: Met | None = None) -> Any:
        """The outcome of the call, from the record or from doing it. `met` is what `meet` has said of it already."""
        place, key, digest, recorded = self.meet(asked.name, asked.identity) if met is None else met
        if recorded is None and self.history.drifted(key, digest) is not None:
            recorded = await self.known(asked, key, digest)
        if self.recalls(recorded):
            return recorded.result
        if recorded is not None and recorded.settled:
            return await self.again(recorded, asked)
        if self._winding_down is not None:
            await self.unless_winding_down()
        if asked.terms.effect is Effect.READ_ONLY and recorded is None:
            return await self._read(asked, place, key, digest, self.history.next_generation(key))
        return await self.acts.act(asked, place, key, digest, recorded)

    async def unless_winding_down(self) -> None:
        """Something new may be begun; otherwise the code gets no further than here."""
        if self._winding_down is not None:
            self.look()
            await asyncio.get_running_loop().create_future()

    async def known(self, asked: Asked, key: str, digest: str) -> Recorded | None:
        """What is recorded of this very call. If it is recorded as an effect with other arguments, the job parks."""
        recorded = self.history.find(key, digest)
        drifted = self.history.drifted(key, digest) if recorded is None else None
        if drifted is not None and drifted.effect is not Effect.READ_ONLY:
            self._park("a recorded call was made with other arguments", [drifted], asked, key)
            await asyncio.get_running_loop().create_future()
        return recorded

    async def past(self, recorded: Recorded) -> None:
        """What the code waited for the first time has come, in its turn; or has not, if the code gave it up."""
        if recorded.cancelled_seq is not None:
            await self._conductor.never(recorded.cancelled_seq, recorded.cancelled_by)
        assert recorded.seq is not None
        await self.turn(recorded.seq)

    async def again(self, recorded: Recorded, asked: Asked) -> Any:
        """What the code saw the first time."""
        if recorded.cancelled_seq is not None or len(self._tasks) > 1:
            await self.past(recorded)
        self.meter.replayed()
        if recorded.error is None:
            return recorded.result
        error = failures.recorded(recorded.error, asked.raises)
        if recorded.final or recorded.status is not CallStatus.FAILED:
            raise error  # to make the call again would be a second effect, or against a person's word
        raise self.noted(error, recorded.step_key)

    async def _read(self, asked: Asked, place: Place, key: str, digest: str, generation: int) -> Any:
        try:
            value, error = await (self.purse or self).perform(asked, place, key)
            data = None
            if error is None:
                value, data, error = written(value)
            outcome, told = ("succeeded", None) if error is None else ("failed", failures.told(error))
            step = StepFinished(key, digest, outcome, value, told, generation)
            body = None if data is None else body_of_step(step, data)
            seq = self.recorder.record(step, body=body, progress=True)
            if self._strict or len(self._tasks) > 1:
                await self.handed_over(seq)
        except asyncio.CancelledError:
            await self.given_up(key, digest, generation)
            raise
        return value if error is None else self.delivered(value, error, asked, key)

    def perform(
        self, asked: Asked, place: Place, step_key: str, key: str = "", longest_us: int | None = None
    ) -> Coroutine[Any, Any, tuple[Any, Exception | None]]:
        """The call's own code has run, or was ended because it took too long."""
        return performed(self, asked, place, step_key, key, longest_us)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The job stays awake for what is under way: a call, its intent on the way to the disk, a probe."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    def delivered(self, value: Any, error: Exception | None, asked: Asked, key: str) -> Any:
        if error is None:
            return value
        raise self.noted(failures.raised(error, asked.raises), key)

    def noted(self, error: Exception, key: str) -> Exception:
        """The error, remembered as this call's: if it ends the attempt, the call is made again in the next."""
        self._raised.append((error, key))
        return error

    @asynccontextmanager
    async def noting_cancel(
        self, key: str, digest: str, generation: int, extras: Extras = NOTHING
    ) -> AsyncIterator[None]:
        """The code gave the call up: a fact, unless we stop it."""
        try:
            yield
        except asyncio.CancelledError:
            await self.given_up(key, digest, generation, extras)
            raise

    async def given_up(self, key: str, digest: str, generation: int, extras: Extras = NOTHING) -> None:
        """The code hears of it in its turn: results that were there before come first, now and in replay."""
        if not self.stopping:
            event = CallCancelled(key, digest, generation=generation, by=self._conductor.struck)
            seq = self.recorder.record(event, extras=extras)
            self.look()
            await self.turn(seq)

    async def handed_over(self, seq: int) -> None:
        if self._strict:
            await self.on_disk(seq)
        await self.turn(seq)

    async def on_disk(self, seq: int) -> None:
        """The result is durable, and no later one has been handed over meanwhile."""
        if self.alone:
            self.running += 1
            try:
                await self.recorder.durable()
            finally:
                self.running -= 1
            return
        with self._conductor.expecting(seq):
            await self.recorder.durable()

    async def turn(self, seq: int) -> None:
        if len(self._tasks) > 1:  # a lone task is always next: nothing else of its job could run before it
            await self._conductor.turn(seq)

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Calls and tasks in the block are counted by themselves: what is added before it shifts none of their keys."""
        place = places.outside_calls()
        outer, place.scope = place.scope, place.scope.inner(name)
        try:
            yield
        finally:
            place.scope = outer

    def latest_us(self) -> int:
        """The time is not later than this: what may not be over too early is counted from here."""
        return self.clock.wall_us() + self._unsure_us

    def dead_at(self, worker: str) -> int | None:
        """By when this worker was certainly dead: when it was first found so here. None: nothing is proven."""
        if worker not in self._dead and self._gone(worker):
            self._dead[worker] = self.latest_us()
        return self._dead.get(worker)

    def fail(self, error: Exception) -> None:
        """The attempt has failed, whatever the code would make of the error."""
        self.stop(Failed(error, ()))

    @contextmanager
    def recovering(self, step_key: str) -> Iterator[None]:
        """Until the block is over, or `settled` is said, nothing new fires."""
        self._recovering.add(step_key)
        try:
            yield
        finally:
            self.settled(step_key)

    def settled(self, step_key: str) -> None:
        """What became of this cut-off call is known."""
        if step_key in self._recovering:
            self._recovering.discard(step_key)
            self.look()

    # ── drift ─────────────────────────────────────────────────────────────────────────────────────

    async def clear(self, asked: Asked, key: str) -> None:
        """Nothing recorded is left that the code might mean by this call under another name, and every call that was
        cut off is settled: nothing new fires beside a recovery."""
        if not self.history.has_unclaimed and not self._recovering:
            return
        cleared = asyncio.get_running_loop().create_future()
        self._held[cleared] = (asked, key)
        self.look()
        try:
            await cleared
        finally:
            self._held.pop(cleared, None)  # the code may have given it up

    def _at_rest(self) -> None:
        """Every task waits, and nothing can be handed over."""
        if self.running:
            return
        if self._winding_down is not None:
            self.stop(self._winding_down)
            return
        if not self._held or self._recovering:
            asleep = self.waits.asleep()
            if asleep is not None:
                self.stop(asleep)
            return
        held, self._held = self._held, {}
        if self.history.has_unclaimed:
            asked, key = next(iter(held.values()))
            why = "a recorded effect is not asked for any more, and another is about to fire"
            self._park(why, self.history.unclaimed(), asked, key)
            return
        for cleared in held:
            if not cleared.done():
                cleared.set_result(None)

    def _park(self, why: str, recorded: list[Recorded], asked: Asked, key: str) -> None:
        self.stop(parked(why, recorded, asked.name, key, asked.args))
