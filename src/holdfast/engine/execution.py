"""Execution: runs the function of one job from the top and replays its journal.

    call is recorded              its recorded outcome is delivered, in its turn
    call is not recorded          an equal call that is recorded under another key, and that the code does not make
                                  there any more, is adopted; otherwise the call runs, is recorded, and is delivered
    record without its call       a recorded effect: no new effect starts; if the journal ends like that, the job parks

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
from holdfast.engine.crash_points import Points, ignore_point
from holdfast.engine.durable_call import CallPolicy, DurableCall, Owner, digest_of, encode_value
from holdfast.engine.journal_writer import Recorder, Stamp
from holdfast.engine.orphan_tasks import warn_about_orphans
from holdfast.engine.replay_scheduler import JOB, InsideCall, ReplayScheduler
from holdfast.engine.run_outcomes import Failed, Interrupted, Stopped, Uncovered, output_of, park_job
from holdfast.engine.side_effects import SideEffectCall
from holdfast.engine.streams import VOICE, AttemptOutput, JobStream
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
from holdfast.store.interceptor import Call as StoreCall
from holdfast.store.interceptor import InterceptedStore

CANCEL_AGAIN_S: Final = 1.0
_RUNS: Final = itertools.count()
SUSPENDED_RETRY_US: Final = 10 * SECOND
"""Before a retry that is due this much later, the job is suspended and gives its slot back."""

IdentifiedCall: TypeAlias = tuple[TaskScope, str, str, Recorded | None]


class Execution:
    """One run of a job. `task_scopes` identifies its tasks in every run; the scheduler orders the results.

    The constructor gets every collaborator; no module assigns one later.
    """

    def __init__(
        self,
        history: History,
        recorder: Recorder,
        clock: Clock,
        owner: Owner,
        *,
        strict: bool = False,
        points: Points = ignore_point,
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
        """The store for job code. A query takes no job time."""
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
        """Returns the result of the job's function; or raises Failed, Parked, Asleep, or the error given to `stop`."""
        loop = asyncio.get_running_loop()
        replay_scheduler.install(loop)
        task_scopes.install(loop)
        self.scheduler = ReplayScheduler(loop, self.clock, self.history, self._at_rest)
        self.callback_scope = TaskScope(self, StepScope(f"{self.history.ordinal}/<callback>"))
        if self.io_monitor is not None:
            self.io_monitor.watch_loop(loop)
        root = self._root = task_scopes.start_root(loop, body(), self, StepScope(str(self.history.ordinal)))
        try:
            await asyncio.sleep(0)  # code that never waits has ended by now, and needs no watching
            if not root.done():
                self.scheduler.look_every(stall_detector.LOOK_EVERY_S)
                # Not awaited itself: an outside cancel of this run ends the code, but is not a decision of the code.
                await task_scopes.wait_until_done(loop, root)
        except asyncio.CancelledError:
            await self._cancel_all_tasks()
            raise
        finally:
            self.scheduler.stop()
        self.tasks.discard(root)
        if self.tasks and self._ending is None and not root.cancelled() and root.exception() is None:
            self._name_orphans()
        await self._cancel_all_tasks()
        self.scheduler.forget_run()
        return output_of(root, self._ending, self._raised)

    def _name_orphans(self) -> None:
        warn_about_orphans(self.owner.job_id, self.tasks)

    async def _cancel_all_tasks(self) -> None:
        """Cancels every task until all have ended. Code that catches its cancellation is cancelled again."""
        self._end_tasks()
        while self.tasks:
            await asyncio.wait(self.tasks, timeout=CANCEL_AGAIN_S)
            self._end_tasks()

    def stop(self, ending: Exception) -> None:
        """Cancels the code at once; `run` raises this error, whatever the code does."""
        self._ending = self._ending or ending
        self._end_tasks()

    def wind_down(self, ending: Exception) -> None:
        """Lets running calls finish and starts no new one; when they have ended, the run ends as by `stop`."""
        self._winding_down = ending
        self.look()

    def _end_tasks(self) -> None:
        self.stopping = True
        for task in list(self.tasks):
            task.cancel()

    def note_cancel(self, caller: ReplayScheduler | InsideCall | None) -> None:
        """Called when a task of the job is cancelled. If the job's own code did not decide it, the run ends: the
        cancellation is not recorded, and the worker releases the job."""
        if self.stopping:
            return
        scheduler = caller.scheduler if isinstance(caller, InsideCall) else caller
        if scheduler is not self.scheduler:
            self.stop(Interrupted("a task of the job was cancelled from outside"))

    def check_running(self) -> None:
        """Raises Stopped if the run is being ended. Checked right before the first byte of a call: ending takes a
        moment."""
        if self.stopping:
            raise Stopped

    def check_lease(self) -> None:
        """Ends the run, for another worker to continue, unless the lease lasts long enough to start a call."""
        self.check_running()
        if not self._covered():
            self.stop(Uncovered("the lease is about to end, and could not be renewed"))
            raise Stopped

    def look(self) -> None:
        """Asks the scheduler for its next step, once the code is at rest."""
        self.scheduler.look()

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def place(self) -> TaskScope:
        """The task scope that the calling code runs in; or Stopped, or the error that forbids calls there."""
        if self.stopping:
            raise Stopped
        return task_scopes.get_task_scope()

    def identify_call(self, name: str, identity: Any) -> IdentifiedCall:
        """Identifies the next call of this name: its task scope, its key, its digest, its record."""
        if self.stopping:
            raise Stopped
        place = task_scopes.get_task_scope()
        key = place.scope.key(name)
        digest = digest_of(identity)
        return place, key, digest, self.history.find(key, digest)

    def deliver_recorded(self, recorded: Recorded) -> bool:
        """Whether the code gets this result at once, without a wait. Most of a long replay takes this path."""
        if recorded.seq is None or recorded.error is not None:
            return False
        if recorded.cancelled_seq is not None or len(self.tasks) != 1:
            return False
        if not self.scheduler.deliver_at_once(recorded.seq, recorded.at):
            return False
        self.meter.record_replay()
        return True

    async def call(self, call: DurableCall, met: IdentifiedCall | None = None) -> Any:
        """Returns the outcome of the call: recorded, or from running it. `met`: the result of `identify_call`."""
        place, key, digest, recorded = self.identify_call(call.name, call.identity) if met is None else met
        if recorded is None and self.history.has_unclaimed:
            recorded = await self.adopt(key, digest)
        if recorded is not None:
            if self.deliver_recorded(recorded):
                return recorded.result
            if recorded.settled:
                if await self.wait_for_outcome(recorded):
                    return self.recall(recorded, call)
                recorded = None if recorded.effect is Effect.READ_ONLY else recorded
        if self._winding_down is not None:
            await self.wait_unless_winding_down()
        if call.terms.effect is Effect.READ_ONLY and recorded is None:
            if self.history.retries:
                await self._wait_for_retry(key, digest)
            return await self._read(call, place, key, digest, self.history.next_generation(key))
        return await self.acts.act(call, place, key, digest, recorded)

    async def wait_unless_winding_down(self) -> None:
        """Returns if a new call may start. While the run winds down it never returns."""
        if self._winding_down is not None:
            self.look()
            await asyncio.get_running_loop().create_future()

    async def adopt(self, key: str, digest: str) -> Recorded | None:
        """Returns the record that this call adopts although it was made under another key, or None. The decision is
        made at the record's turn: by then the call that the record belongs to has claimed it."""
        while (recorded := self.history.find_adoptable(call_name(key), digest)) is not None:
            await self.scheduler.turn_to_adopt(recorded.begun_seq, recorded.begun_at)
            if self.history.is_unclaimed(recorded):
                return self._move(key, digest, recorded)
        return None

    def _move(self, key: str, digest: str, recorded: Recorded) -> Recorded | None:
        """Records that the call under this key owns the record, now and in every replay."""
        self.note(CallMoved(key, recorded.step_key, digest, recorded.generation))
        return self.history.find(key, digest)

    def note(self, event: Event, **options: Any) -> Stamp:
        """Records the event, and applies it to the history of this run."""
        stamp = self.recorder.record(event, **options)
        self.history.note(stamp.seq, event, stamp.at)
        return stamp

    async def wait_for_outcome(self, recorded: Recorded) -> bool:
        """Waits for the turn of the recorded outcome. False: the code cancelled the call in the first run and does not
        now, so the call is still open."""
        if recorded.cancelled_seq is not None:
            await self.scheduler.until_cancelled(recorded.cancelled_seq, recorded.cancelled_at)
            recorded.cancelled_seq, recorded.was_cancelled = None, True
        if recorded.seq is None:
            return False
        await self.turn(recorded.seq, recorded.at)
        return True

    def recall(self, recorded: Recorded, call: DurableCall) -> Any:
        """Returns the recorded result, or raises the recorded error."""
        self.meter.record_replay()
        if recorded.error is None:
            return recorded.result
        error = failures.from_recorded_error(recorded.error, call.raises)
        if recorded.final or recorded.status is not CallStatus.FAILED:
            raise error  # to repeat the call would be a second effect, or against a person's decision
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
                recorded_error = None if error is None else failures.record_error(error)
                step = StepFinished(key, digest, "failed", value, recorded_error, generation)
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
        """Repeats a failed read as often as its retry policy allows, and returns the last outcome."""
        before = self.history.find_retry(key, digest)
        attempt, value = 1 if before is None else before.attempt + 1, None
        retry = call.terms.retry
        while error is not None and attempt < retry.attempts and retry.covers(error):
            at = self.record_retry(key, digest, generation, call.terms, error, attempt)
            await self.wait_for_attempt(at)
            if self._winding_down is not None:
                await self.wait_unless_winding_down()
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
        """Records a failed attempt. Returns the time of the next one."""
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
        """Waits until this time. If the wait is long, the job is suspended meanwhile."""
        if at - self.clock.wall_us() >= SUSPENDED_RETRY_US:
            await self.waits.until(at)
            return
        with self.busy():
            await self.waits.until(at)

    async def afford(self, place: TaskScope, step_key: str, ahead: Spent) -> None:
        """Waits until every budget of the job allows this spending."""
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
        """Runs the call's own code, with its time limit. Returns its result or its error. Every step passes here, so
        context managers are written out for speed."""
        timed = self.meter.call(self.owner, call.name, call.terms.effect, step_key)
        how, error = "cancelled", None
        self.running += 1
        place.inside, job_token = step_key, JOB.set(self.scheduler.inside)
        voice = self.outlet.voice(step_key) if self.outlet is not None else AttemptOutput(None, step_key, 1)
        voice_token = VOICE.set(voice)
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
            VOICE.reset(voice_token)
            timed.over(how, error)
            JOB.reset(job_token)
            place.inside = None
            self.running -= 1

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Keeps the job from being suspended in the block: during a call, the write of its intent, a probe."""
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
        """Remembers which call raised the error: if it ends the attempt, the next attempt repeats that call."""
        self._raised.append((error, key))
        return error

    @asynccontextmanager
    async def noting_cancel(
        self, key: str, digest: str, generation: int, extras: Extras = NOTHING
    ) -> AsyncIterator[None]:
        """Records the call as cancelled if the code cancels it in the block; not if the run is being ended."""
        try:
            yield
        except asyncio.CancelledError:
            await self.record_cancelled(key, digest, generation, extras)
            raise

    async def record_cancelled(
        self, key: str, digest: str, generation: int, extras: Extras = NOTHING
    ) -> None:
        """Records the cancel and waits for its turn: earlier results are delivered first, now and in replay."""
        if not self.stopping:
            event = CallCancelled(key, digest, generation=generation)
            stamp = self.recorder.record(event, extras=extras)
            self.look()
            await self.turn(stamp.seq, stamp.at)

    async def hand_over(self, stamp: Stamp) -> None:
        if self._strict:
            await self.wait_until_durable(stamp)
        if len(self.tasks) != 1 or not self.scheduler.deliver_at_once(stamp.seq, stamp.at):
            await self.scheduler.turn(stamp.seq, stamp.at)

    async def wait_until_durable(self, stamp: Stamp) -> None:
        """Waits until the result is durable; no later result is delivered meanwhile."""
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
        """Counts the keys of calls and tasks in the block separately: a call added before the block shifts none of
        them."""
        return task_scopes.get_task_scope().enter_inner(name)

    def job_time(self, due_at: int) -> int:
        """The job time of an event that was due then: not earlier than the job time that the code has seen."""
        return max(due_at, self.scheduler.now_us)

    def latest_us(self) -> int:
        """An upper bound of the store's time. Waits that must not end too early are counted from here."""
        return self.clock.wall_us() + self._unsure_us

    def dead_at(self, worker: str) -> int | None:
        """The time by which this worker was proven dead: when this process first found it so. None: not proven."""
        if worker not in self._dead and self._gone(worker):
            self._dead[worker] = self.latest_us()
        return self._dead.get(worker)

    def fail(self, error: Exception) -> None:
        """Fails the attempt. The code cannot catch the error."""
        self.stop(Failed(error, ()))

    @contextmanager
    def recovering(self, step_key: str) -> Iterator[None]:
        """Blocks new effects until the block ends or `mark_settled` is called."""
        self._recovering.add(step_key)
        try:
            yield
        finally:
            self.mark_settled(step_key)

    def mark_settled(self, step_key: str) -> None:
        """The outcome of this cut-off call is known: it no longer blocks new effects."""
        if step_key in self._recovering:
            self._recovering.discard(step_key)
            self.look()

    # ── drift ─────────────────────────────────────────────────────────────────────────────────────

    async def clear(self, call: DurableCall, key: str) -> None:
        """Waits until a new effect may fire: every recorded effect is claimed (an unclaimed one could be this call
        under another name), and every cut-off call is settled."""
        if not self._recovering and not self.history.has_unclaimed_effects:
            return
        cleared = asyncio.get_running_loop().create_future()
        self._held[cleared] = (call, key)
        self.look()
        try:
            await cleared
        finally:
            self._held.pop(cleared, None)  # the code may have cancelled the call

    def _at_rest(self, is_polling: bool) -> bool:
        """Called by the scheduler when every task waits and no recorded result can be delivered."""
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
                ending = self._stalls.find_stall(self.scheduler, self.tasks, is_polling=is_polling)
            if ending is not None:
                self.stop(ending)
        return False

    def _release_held(self) -> None:
        """Lets new effects fire: the code has claimed every recorded effect."""
        held, self._held = self._held, {}
        for cleared in held:
            if not cleared.done():
                cleared.set_result(None)

    def _park_held(self) -> None:
        """Parks the job: the changed code no longer makes a recorded effect, and is about to fire a new one."""
        call, key = next(iter(self._held.values()))
        why = "a recorded effect is not asked for any more, and another is about to fire"
        if self.history.find_drifted(key, digest_of(call.identity)) is not None:
            why = "a recorded call was made with other arguments"
        self._park(why, self.history.find_unclaimed_effects(), call, key)

    def park_repurchase(
        self, name: str, key: str, digest: str, recorded: Recorded, fields: tuple[str, ...]
    ) -> None:
        """Parks the job: a model request differs from the recorded one, and its author wants a person to decide."""
        differing = ", ".join(fields) or "its contents"
        why = f"a recorded answer would be bought again: the request differs in {differing}"
        self.stop(park_job(why, [recorded], name, key, {"args_digest": digest, "differs_in": list(fields)}))

    def _park(self, why: str, recorded: list[Recorded], call: DurableCall, key: str) -> None:
        self.stop(park_job(why, recorded, call.name, key, call.args))
