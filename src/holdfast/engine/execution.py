"""One run of one job: its function from the top, with everything that is recorded handed back instead of done again.

    asked for, recorded           the record, in its turn
    asked for, not recorded       adopted, if the same call is recorded under another key and its own code does not ask
                                  for it; otherwise done now, recorded, and delivered in its turn
    recorded, not asked for       an effect: nothing new may fire; if the journal ends like that, the job parks

So changed code is noticed before it acts, and a renamed function cannot send a second mail.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import cached_property
from typing import Any, Final, TypeAlias

from holdfast.engine import failures, replay_scheduler, stall_detector, task_scopes
from holdfast.engine.audit_hook import IoMonitor
from holdfast.engine.budgets import BudgetGuard
from holdfast.engine.crash_points import Points, nothing
from holdfast.engine.durable_call import CallPolicy, DurableCall, Owner, digest_of, encode_value
from holdfast.engine.journal_writer import Recorder, Stamp
from holdfast.engine.orphan_tasks import warn_about_orphans
from holdfast.engine.replay_scheduler import JOB, InsideCall, ReplayScheduler
from holdfast.engine.run_outcomes import Failed, Interrupted, Stopped, Uncovered, output_of, park_job
from holdfast.engine.side_effects import SideEffectCall
from holdfast.engine.streams import VOICE, JobStream, Voice
from holdfast.engine.task_scopes import TaskScope
from holdfast.engine.telemetry import SILENT, Telemetry
from holdfast.engine.wait_set import WaitSet
from holdfast.errors import Refused
from holdfast.model.append import NOTHING, Extras
from holdfast.model.budget import Spent
from holdfast.model.events import CallCancelled, CallMoved, CallRetried, Event, StepFinished
from holdfast.model.evidence import Inspector
from holdfast.model.hash_chain import body_of_step
from holdfast.model.replay_history import History, Recorded
from holdfast.model.retry import delay
from holdfast.model.side_effects import CallStatus, Effect
from holdfast.model.step_keys import StepScope, call_name
from holdfast.model.time import SECOND
from holdfast.store.clock import Clock
from holdfast.store.contract import Store
from holdfast.store.intercepted import Call as StoreCall
from holdfast.store.intercepted import InterceptedStore

CANCEL_AGAIN_S: Final = 1.0
_RUNS: Final = itertools.count()
SUSPENDED_RETRY_US: Final = 10 * SECOND
"""A job whose call is made again so much later gives its slot back meanwhile."""

Met: TypeAlias = tuple[TaskScope, str, str, Recorded | None]


class Execution:
    """The run. `task_scopes` finds its tasks again; the order of results is the scheduler's.

    Everything that it works with is given to it when it is made, and nothing is exchanged afterwards."""

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
        outlet: JobStream | None = None,
        chance: Callable[[], float] = lambda: 0.5,
        io_monitor: IoMonitor | None = None,
        store: Store | None = None,
        meter: Telemetry = SILENT,
    ) -> None:
        self.owner: Final = owner
        self.history: Final = history
        self._budget = (
            BudgetGuard(self, recorder, store.budgets) if store is not None and owner.budgets else None
        )
        self.recorder: Final[Recorder] = recorder if self._budget is None else self._budget
        self.clock: Final = clock
        self.host_clock: Final = clock if host_clock is None else host_clock
        self._unsure_us = unsure_us
        self.inspect: Final = inspect
        self.io_monitor: Final = io_monitor
        self.outlet: Final = outlet
        self._gone = gone
        self._dead = {} if dead is None else dead
        self.acts = SideEffectCall(self, points)
        self._strict = strict
        self._covered = covered
        self._chance = chance
        self.tasks: Final[set[asyncio.Task[Any]]] = set()
        self.run_number: Final = next(_RUNS) & 0x1FFFFFFF
        self.running = 0
        self._held: dict[asyncio.Future[None], tuple[DurableCall, str]] = {}
        self._ending: Exception | None = None
        self._winding_down: Exception | None = None
        self.stopping = False
        self._recovering: set[str] = set()
        self._stalls = stall_detector.StallDetector(owner.job_id)
        self.waits = WaitSet(clock, self.look)
        self._raised: list[tuple[Exception, str]] = []
        self._store = store
        self.meter: Final = meter

    @cached_property
    def store(self) -> Store | None:
        """The store as job code may ask it: to the code that takes no time."""
        return None if self._store is None else InterceptedStore(self._store, self._ask_store)

    async def _ask_store(
        self, name: str, call: StoreCall, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        task_scope = task_scopes.find_task_scope()
        if task_scope is None or task_scope.inside is not None:
            return await call(*args, **options)
        with self.scheduler.pause(), task_scope.within(name):
            return await call(*args, **options)

    async def run(self, body: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What the job's function returned; or Failed, Parked, Asleep, or whatever `stop` was called with."""
        loop = asyncio.get_running_loop()
        replay_scheduler.install(loop)
        task_scopes.install(loop)
        self.scheduler = ReplayScheduler(loop, self.clock, self.history, self._at_rest)
        self.callback_scope = TaskScope(self, StepScope(f"{self.history.ordinal}/<callback>"))
        if self.io_monitor is not None:
            self.io_monitor.watch_loop(loop)
        root = self._root = task_scopes.start_root(loop, body(), self, StepScope(str(self.history.ordinal)))
        try:
            await asyncio.sleep(0)  # code that never waits has come to its end: nothing is set up to watch it
            if not root.done():
                self.scheduler.look_every(stall_detector.LOOK_EVERY_S)
                # Not awaited itself: whatever cancels this run ends the code, which is not a decision of the code.
                await task_scopes.wait_until_done(loop, root)
        except asyncio.CancelledError:
            await self._all_ended()
            raise
        finally:
            self.scheduler.stop()
        self.tasks.discard(root)
        if self.tasks and self._ending is None and not root.cancelled() and root.exception() is None:
            self._name_orphans()
        await self._all_ended()
        self.scheduler.forget_run()
        return output_of(root, self._ending, self._raised)

    def _name_orphans(self) -> None:
        warn_about_orphans(self.owner.job_id, self.tasks)

    async def _all_ended(self) -> None:
        """None of the code runs any more. What caught its end and went on is ended again."""
        self._end_tasks()
        while self.tasks:
            await asyncio.wait(self.tasks, timeout=CANCEL_AGAIN_S)
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
        for task in list(self.tasks):
            task.cancel()

    def note_cancel(self, caller: ReplayScheduler | InsideCall | None) -> None:
        """A task of the job is cancelled. If that is not a decision of its own code, the run ends: what the code leaves
        undone now is not recorded, and the job is given back."""
        if self.stopping:
            return
        scheduler = caller.scheduler if isinstance(caller, InsideCall) else caller
        if scheduler is not self.scheduler:
            self.stop(Interrupted("a task of the job was cancelled from outside"))

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

    def look(self) -> None:
        """Something has changed: once the code has come to rest, it is seen what comes next."""
        self.scheduler.look()

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def place(self) -> TaskScope:
        """Where the job's code stands that asks for something now; or Stopped, or the error that says it may not."""
        if self.stopping:
            raise Stopped
        return task_scopes.get_task_scope()

    def meet(self, name: str, identity: Any) -> Met:
        """The next call of this name: where it is made, its key, its digest, and what is recorded of it."""
        if self.stopping:
            raise Stopped
        place = task_scopes.get_task_scope()
        key = place.scope.key(name)
        digest = digest_of(identity)
        return place, key, digest, self.history.find(key, digest)

    def recalls(self, recorded: Recorded) -> bool:
        """Whether the code simply gets this result: a long replay is made of these."""
        if recorded.seq is None or recorded.error is not None:
            return False
        if recorded.cancelled_seq is not None or len(self.tasks) != 1:
            return False
        if not self.scheduler.deliver_at_once(recorded.seq, recorded.at):
            return False
        self.meter.record_replay()
        return True

    async def call(self, call: DurableCall, met: Met | None = None) -> Any:
        """The outcome of the call, from the record or from doing it. `met` is what `meet` has said of it already."""
        place, key, digest, recorded = self.meet(call.name, call.identity) if met is None else met
        if recorded is None and self.history.has_unclaimed:
            recorded = await self.adopt(key, digest)
        if recorded is not None:
            if self.recalls(recorded):
                return recorded.result
            if recorded.settled:
                if await self.past(recorded):
                    return self.recall(recorded, call)
                recorded = None if recorded.effect is Effect.READ_ONLY else recorded
        if self._winding_down is not None:
            await self.unless_winding_down()
        if call.terms.effect is Effect.READ_ONLY and recorded is None:
            if self.history.retries:
                await self._wait_for_retry(key, digest)
            return await self._read(call, place, key, digest, self.history.next_generation(key))
        return await self.acts.act(call, place, key, digest, recorded)

    async def unless_winding_down(self) -> None:
        """Something new may be begun; otherwise the code gets no further than here."""
        if self._winding_down is not None:
            self.look()
            await asyncio.get_running_loop().create_future()

    async def adopt(self, key: str, digest: str) -> Recorded | None:
        """The record that this call takes over, though it was made under another key; None, if there is none. It is
        decided when the record's turn comes: by then a call that has it as its own has claimed it."""
        while (recorded := self.history.find_adoptable(call_name(key), digest)) is not None:
            await self.scheduler.turn_to_adopt(recorded.begun_seq, recorded.begun_at)
            if self.history.is_unclaimed(recorded):
                return self._move(key, digest, recorded)
        return None

    def _move(self, key: str, digest: str, recorded: Recorded) -> Recorded | None:
        """The record is the call's that the code makes under this key, from here on and in every replay."""
        self.note(CallMoved(key, recorded.step_key, digest, recorded.generation))
        return self.history.find(key, digest)

    def note(self, event: Event, **options: Any) -> Stamp:
        """The fact is recorded, and known to the run itself."""
        stamp = self.recorder.record(event, **options)
        self.history.note(stamp.seq, event, stamp.at)
        return stamp

    async def past(self, recorded: Recorded) -> bool:
        """What the code waited for the first time has come, in its turn. False: the code gave it up then and does not
        now, so the call is still open."""
        if recorded.cancelled_seq is not None:
            await self.scheduler.until_cancelled(recorded.cancelled_seq, recorded.cancelled_at)
            recorded.cancelled_seq, recorded.was_cancelled = None, True
        if recorded.seq is None:
            return False
        await self.turn(recorded.seq, recorded.at)
        return True

    def recall(self, recorded: Recorded, call: DurableCall) -> Any:
        """What the code saw the first time."""
        self.meter.record_replay()
        if recorded.error is None:
            return recorded.result
        error = failures.from_recorded_error(recorded.error, call.raises)
        if recorded.final or recorded.status is not CallStatus.FAILED:
            raise error  # to make the call again would be a second effect, or against a person's word
        raise self.note_error(error, recorded.step_key)

    async def _read(self, call: DurableCall, place: TaskScope, key: str, digest: str, generation: int) -> Any:
        try:
            value, error = await (self._budget or self).perform(call, place, key)
            if error is not None and call.terms.retry.attempts > 1:
                value, error = await self._read_again(call, place, key, digest, generation, error)
            body = data = None
            if error is None:
                value, data, error = encode_value(value)
            if data is not None:
                step = StepFinished(key, digest, "succeeded", value, None, generation)
                body = body_of_step(step, data)
            else:
                told = None if error is None else failures.record_error(error)
                step = StepFinished(key, digest, "failed", value, told, generation)
            stamp = self.recorder.record(step, body=body, progress=True)
            is_alone = len(self.tasks) == 1 and not self._strict
            if not is_alone or not self.scheduler.deliver_at_once(stamp.seq, stamp.at):
                await self.hand_over(stamp)
        except asyncio.CancelledError:
            await self.record_cancelled(key, digest, generation)
            raise
        return value if error is None else self.deliver_result(value, error, call, key)

    async def _read_again(
        self,
        call: DurableCall,
        place: TaskScope,
        key: str,
        digest: str,
        generation: int,
        error: Exception | None,
    ) -> tuple[Any, Exception | None]:
        """The outcome of a read that failed, after as many attempts as its policy allows."""
        before = self.history.find_retry(key, digest)
        attempt, value = 1 if before is None else before.attempt + 1, None
        retry = call.terms.retry
        while error is not None and attempt < retry.attempts and retry.covers(error):
            at = self.record_retry(key, digest, generation, call.terms, error, attempt)
            await self.wait_for_attempt(at)
            if self._winding_down is not None:
                await self.unless_winding_down()
            value, error = await (self._budget or self).perform(call, place, key)
            attempt += 1
        return value, error

    async def _wait_for_retry(self, key: str, digest: str) -> None:
        retried = self.history.find_retry(key, digest)
        if retried is not None:
            async with self.noting_cancel(key, digest, retried.generation):
                await self.wait_for_attempt(retried.next_at)

    def record_retry(
        self,
        key: str,
        digest: str,
        generation: int,
        terms: CallPolicy,
        error: Exception,
        attempt: int,
        *,
        sent_nothing: bool = False,
        is_probe: bool = False,
        next_at: int = 0,
    ) -> int:
        """The failed attempt is recorded. Returns when the next one is due."""
        policy = terms.retry.policy
        next_at = next_at or self.clock.wall_us() + delay(policy, attempt, self._chance())
        event = CallRetried(
            key,
            digest,
            attempt,
            policy.attempts,
            next_at,
            generation=generation,
            sent_nothing=sent_nothing,
            probe=is_probe,
            error=failures.record_error(error),
        )
        self.note(event)
        return next_at

    async def wait_for_attempt(self, at: int) -> None:
        """It is this time. The job is suspended meanwhile, unless the wait is short."""
        if at - self.clock.wall_us() >= SUSPENDED_RETRY_US:
            await self.waits.until(at)
            return
        with self.busy():
            await self.waits.until(at)

    async def afford(self, place: TaskScope, step_key: str, ahead: Spent) -> None:
        """No budget stands against it. Until then the code waits."""
        if self._budget is not None:
            await self._budget.afford(place, step_key, ahead)

    async def perform(
        self,
        call: DurableCall,
        place: TaskScope,
        step_key: str,
        key: str = "",
        longest_us: int | None = None,
    ) -> tuple[Any, Exception | None]:
        """The call's own code has run, or was ended because it took too long: what it returned, or what it raised.
        Every step passes here: what could be a block of its own is written out."""
        timed = self.meter.call(self.owner, call.name, call.terms.effect, step_key)
        how, error = "cancelled", None
        self.running += 1
        place.inside, left = step_key, JOB.set(self.scheduler.inside)
        voice = self.outlet.voice(step_key) if self.outlet is not None else Voice(None, step_key, 1)
        spoken = VOICE.set(voice)
        try:
            limit_us = call.terms.reads_within_us if longest_us is None else longest_us
            if limit_us is None:
                value = await call.run(key)
            else:
                async with asyncio.timeout(limit_us / 1_000_000):
                    value = await call.run(key)
            how = "succeeded"
            return value, None
        except Exception as raised:
            how, error = "refused" if isinstance(raised, Refused) else "failed", raised
            return None, raised
        finally:
            voice.is_over = True
            VOICE.reset(spoken)
            timed.over(how, error)
            JOB.reset(left)
            place.inside = None
            self.running -= 1

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The job stays awake for what is under way: a call, its intent on the way to the disk, a probe."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    def deliver_result(self, value: Any, error: Exception | None, call: DurableCall, key: str) -> Any:
        if error is None:
            return value
        raise self.note_error(failures.to_raised_error(error, call.raises), key)

    def note_error(self, error: Exception, key: str) -> Exception:
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
            await self.record_cancelled(key, digest, generation, extras)
            raise

    async def record_cancelled(
        self, key: str, digest: str, generation: int, extras: Extras = NOTHING
    ) -> None:
        """The code hears of it in its turn: results that were there before come first, now and in replay."""
        if not self.stopping:
            event = CallCancelled(key, digest, generation=generation)
            stamp = self.recorder.record(event, extras=extras)
            self.look()
            await self.turn(stamp.seq, stamp.at)

    async def hand_over(self, stamp: Stamp) -> None:
        if self._strict:
            await self.on_disk(stamp)
        if len(self.tasks) != 1 or not self.scheduler.deliver_at_once(stamp.seq, stamp.at):
            await self.scheduler.turn(stamp.seq, stamp.at)

    async def on_disk(self, stamp: Stamp) -> None:
        """The result is durable, and no later one has been delivered meanwhile."""
        if len(self.tasks) == 1 and not self.scheduler.timers:
            self.running += 1
            try:
                await self.recorder.durable()
            finally:
                self.running -= 1
            return
        with self.scheduler.expecting(stamp.seq, stamp.at):
            await self.recorder.durable()

    async def turn(self, seq: int, at: int) -> None:
        if len(self.tasks) != 1 or not self.scheduler.deliver_at_once(seq, at):
            await self.scheduler.turn(seq, at)

    def scope(self, name: str) -> AbstractContextManager[None]:
        """Calls and tasks in the block are counted by themselves: what is added before it shifts none of their keys."""
        return task_scopes.get_task_scope().enter_inner(name)

    def job_time(self, due_at: int) -> int:
        """Job time of a fact that was due then: not before what the code has got already."""
        return max(due_at, self.scheduler.now_us)

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
            self.mark_settled(step_key)

    def mark_settled(self, step_key: str) -> None:
        """What became of this cut-off call is known."""
        if step_key in self._recovering:
            self._recovering.discard(step_key)
            self.look()

    # ── drift ─────────────────────────────────────────────────────────────────────────────────────

    async def clear(self, call: DurableCall, key: str) -> None:
        """Nothing recorded is left that the code might mean by this call under another name, and every call that was
        cut off is settled: nothing new fires beside a recovery."""
        if not self._recovering and not self.history.has_unclaimed_effects:
            return
        cleared = asyncio.get_running_loop().create_future()
        self._held[cleared] = (call, key)
        self.look()
        try:
            await cleared
        finally:
            self._held.pop(cleared, None)  # the code may have given it up

    def _at_rest(self, is_polling: bool) -> bool:
        """Every task waits, and nothing that is recorded can be delivered."""
        if self._root.done():
            return False
        if self._held and not self._recovering and not self.history.has_unclaimed_effects:
            self._release_held()
            return True
        if self.running or self.scheduler.externals:
            return False
        if self._winding_down is not None:
            self.stop(self._winding_down)
        elif self._held and not self._recovering:
            self._park_held()
        else:
            ending: Exception | None = None
            if not is_polling:
                ending = self.waits.find_suspension(self.scheduler, self.tasks, self.clock.wall_us())
            if ending is None and not self.waits.is_open and self.scheduler.next_timer_us is None:
                ending = self._stalls.look(self.scheduler, self.tasks, is_polling=is_polling)
            if ending is not None:
                self.stop(ending)
        return False

    def _release_held(self) -> None:
        """The code has asked for every recorded effect: new ones fire."""
        held, self._held = self._held, {}
        for cleared in held:
            if not cleared.done():
                cleared.set_result(None)

    def _park_held(self) -> None:
        """A new effect is about to fire, and the code does not ask for a recorded one any more: it has changed."""
        call, key = next(iter(self._held.values()))
        why = "a recorded effect is not asked for any more, and another is about to fire"
        if self.history.find_drifted(key, digest_of(call.identity)) is not None:
            why = "a recorded call was made with other arguments"
        self._park(why, self.history.find_unclaimed_effects(), call, key)

    def park_repurchase(
        self, name: str, key: str, digest: str, recorded: Recorded, fields: tuple[str, ...]
    ) -> None:
        """A request to a model differs from the recorded one, and its author wants to be asked before it is bought."""
        differing = ", ".join(fields) or "its contents"
        why = f"a recorded answer would be bought again: the request differs in {differing}"
        self.stop(park_job(why, [recorded], name, key, {"args_digest": digest, "differs_in": list(fields)}))

    def _park(self, why: str, recorded: list[Recorded], call: DurableCall, key: str) -> None:
        self.stop(park_job(why, recorded, call.name, key, call.args))
