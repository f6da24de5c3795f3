"""Deterministic scheduler: delivers results and timers to a job's code one at a time, in the order of job time.

The problem
    Ordinary asyncio code branches on the order in which things happen: the first of `as_completed`, which task appends
    to a list before another, whether a timeout was quicker than an answer. A resumed job has all its recorded results
    at once, and its timers would start again. In any other order than in the first run, the code could take another
    branch, and no longer make a recorded call.

The method
    One rule for the first run and for every replay.

    Results are delivered one at a time, in the order of their `seq`, and only at *rest*: while no callback of the job
    is ready to run. Between two deliveries the code runs until every one of its tasks waits. What it does there depends
    on nothing but what was delivered, so the same deliveries in the same order lead to the same code.

    The code runs in *job time*: that of the last result or timer delivered to it. `loop.time()` is that time,
    in seconds since the job started. A timer that the code sets (`asyncio.sleep`, `timeout`, `wait_for`, `call_later`)
    is due at job time + delay. Before a result of time T is delivered, timers due at or before T fire, in order of due
    time and creation. So the times in the journal decide whether a timer or a result comes first, timers need no events
    of their own, and a replay waits for none: until the code requests the journal's last record, every timer due by
    then fires at once. After that a timer fires when the clock reaches it.

    Time in which no worker ran the job counts only for timers of a minute and more. A takeover must not fire every
    short timeout around the call that is just being made again.

How rest is recognised
    No callback in the loop's ready queue has the job's mark in its context. Every callback that job code schedules
    carries the context of that code. Callbacks of calls (inside a step the mark is another) and of other jobs do not
    count. A loop that hides its queue (uvloop) gets a `call_soon` that counts the callbacks of jobs.

What could go wrong
    A call was cancelled in the first run (`wait_for`, `timeout`). Its record says so and has a `seq` too: in replay it
    stays open until the code cancels it again, and nothing recorded later is delivered before. If the code comes to
    rest without doing so, the code has changed: the recorded cancel is void once the journal has been replayed, and the
    call is recovered like any other that was cut off.
    Code polls (`while not task.done(): await asyncio.sleep(0)`) and never comes to rest: after a bounded number of
    passes of the loop the next result is delivered nevertheless.
    Code waits for something that is not durable (a socket, a thread): its order against results is chance, in the
    first run and in every other. The place for such things is a step. The scheduler at least waits for threads: as long
    as one works for the job's code, no drift is judged and the job is not suspended.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from holdfast.engine import ready_queue
from holdfast.engine.ready_queue import CountedCallback, ReadyQueue
from holdfast.model.replay_history import Gap, History
from holdfast.model.time import MINUTE
from holdfast.store.clock import Clock

JOB: Final[contextvars.ContextVar[ReplayScheduler | InsideCall | None]] = contextvars.ContextVar(
    "holdfast_job", default=None
)
"""Mark of the running code: a job's own code (its scheduler), a call of a job, or neither (None)."""

POLLING_PASSES: Final = 1000
"""After this many passes of the loop without rest, the code counts as polling for the next delivery."""

STILL_POLLING_PASSES: Final = 20
"""The same bound for code that has not come to rest since it counted as polling. A timer that such code sets over and
over may be due each millisecond; if each delivery took longer than the timer, job time would fall behind for ever."""

LONG_TIMER_US: Final = MINUTE
"""A timer of at least this length counts the time in which no worker ran the job."""

NEVER_S: Final = 1e11
NEVER_US: Final = 2**62
"""A timer this far away is never due."""

UNMARKED: Final = contextvars.Context()


class InsideCall:
    """Mark of code that runs inside a call: a step, a tool, a model client."""

    __slots__ = ("scheduler",)

    def __init__(self, scheduler: ReplayScheduler) -> None:
        self.scheduler: ReplayScheduler | None = scheduler


class JobTimer(asyncio.TimerHandle):
    """A timer that job code has set. The scheduler queues it instead of the loop."""

    def __init__(
        self,
        scheduler: ReplayScheduler,
        when: float,
        due_us: int,
        callback: Callable[..., object],
        args: Sequence[Any],
        context: contextvars.Context | None,
    ) -> None:
        super().__init__(when, callback, args, scheduler.loop, context)
        self._scheduler: ReplayScheduler | None = scheduler
        self.due_us = due_us
        self.set_us = scheduler.now_us
        self.is_short = due_us - scheduler.now_us < LONG_TIMER_US

    def cancel(self) -> None:
        asyncio.Handle.cancel(self)
        self._leave()

    def fire(self) -> None:
        self._leave()
        self._run()

    def _leave(self) -> None:
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None:
            scheduler.timer_left()


class _Delivery:
    """A result that waits for its turn. `future` None: it has its place but is not durable yet. `is_cancel`: the code
    cancelled the call at this place in the first run, and has not yet done so again."""

    __slots__ = ("at", "future", "is_cancel")

    def __init__(self, at: int, future: asyncio.Future[bool] | None, *, is_cancel: bool = False) -> None:
        self.at = at
        self.future = future
        self.is_cancel = is_cancel


class ReplayScheduler:
    """Scheduler of one run of a job.

    `at_rest(polling)` is called when all code waits and nothing can be delivered; it returns whether it changed
    anything. `polling`: the code is not at rest, but has only polled for long.
    """

    # Defaults are class attributes, to save the assignments in each run: most runs are short.
    timers = 0
    """How many timers of the code are pending."""
    externals = 0
    """How many futures of threads and processes the code may be waiting for."""
    ready_callbacks = 0
    """How many callbacks of the job are about to run, where the loop hides its queue."""
    deliveries = 0
    """How many results and timers were delivered to the code: it makes progress while this grows."""
    _gaps: Sequence[Gap] = ()
    _gap = -1
    _gap_seq = NEVER_US
    _fired_s = 0.0
    _alarm: asyncio.TimerHandle | None = None
    _alarm_us = 0
    _second_look: asyncio.TimerHandle | None = None
    _regular_look: asyncio.TimerHandle | None = None
    _busy_passes = 0
    _was_polling = False
    _stopped = False
    _paused = 0
    _looking = False

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        history: History,
        at_rest: Callable[[bool], bool],
    ) -> None:
        self.loop = loop
        self._clock = clock
        self._history = history
        self._at_rest = at_rest
        self._ready: Any = getattr(loop, ready_queue.NAME, None)
        self._queue = None if self._ready is None else ReadyQueue(self._ready, JOB, self)
        self.inside = InsideCall(self)
        self.run: Any = None
        """The run that this scheduler belongs to; the run sets it when it starts."""
        started_at = clock.wall_us() if history.start_at is None else history.start_at
        self.now_us = started_at
        self._origin_us = started_at
        if history.gaps:
            self._gaps = list(history.gaps)
            self._pass_gap()
        self._deliveries: dict[int, _Delivery] = {}
        self._seqs: list[int] = []
        self._unrepeated: dict[int, asyncio.Future[bool]] = {}
        self._adoptions: list[tuple[int, int, int, asyncio.Future[None]]] = []
        self._timers: list[tuple[int, int, JobTimer]] = []
        self._numbers = itertools.count()

    # ── job time ──────────────────────────────────────────────────────────────────────────────────

    def time(self) -> float:
        """Job time in seconds since the job started: `loop.time()` for job code."""
        return max((self.now_us - self._origin_us) / 1_000_000, self._fired_s)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        args: Sequence[Any],
        context: contextvars.Context | None,
    ) -> JobTimer:
        """Sets a timer of the code, due at this job time."""
        timer = JobTimer(self, when, self._due_us(when), callback, args, context)
        heapq.heappush(self._timers, (timer.due_us, next(self._numbers), timer))
        self.timers += 1
        self.look()
        return timer

    def _due_us(self, when: float) -> int:
        """Converts the loop's time `when` to job time. A timer as far away as `NEVER_S` is never due."""
        return self._origin_us + round(when * 1_000_000) if when < NEVER_S else NEVER_US

    def timer_left(self) -> None:
        """Called when a pending timer was cancelled or has fired."""
        self.timers -= 1
        if not self.timers and self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    @property
    def next_timer_us(self) -> int | None:
        """When the next timer of the code is due, if there is one that is ever due."""
        timer = self._next_timer()
        return None if timer is None or timer.due_us >= NEVER_US else timer.due_us

    def _next_timer(self) -> JobTimer | None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][2] if self._timers else None

    def _fire_due(self, at: int) -> bool:
        """Fires the first timer that is due by then, and returns whether there was one."""
        timer = self._next_timer()
        if timer is None or timer.due_us > at:
            return False
        heapq.heappop(self._timers)
        self.now_us = max(self.now_us, timer.due_us)
        self._fired_s = max(self._fired_s, timer.when())
        self.deliveries += 1
        timer.fire()
        return True

    def _fire_before(self, seq: int, at: int) -> bool:
        """Fires the first timer that precedes the event at this place and time, and returns whether there was one."""
        while self._gap_seq < seq:
            if self._fire_due(self._gaps[self._gap].last_at):
                return True
            self._cross_gap()
        return self._fire_due(at)

    def _pass_gap(self) -> None:
        """Moves past a gap. `_gap_seq`: the place of the next gap."""
        self._gap += 1
        self._gap_seq = self._gaps[self._gap].seq if self._gap < len(self._gaps) else NEVER_US

    def _cross_gap(self) -> None:
        """Postpones short timers by the time in which no worker ran the job. Timers that were set after it, by code
        that was already in the time of a new event (a checkpoint), are not postponed."""
        gap = self._gaps[self._gap]
        self._pass_gap()
        if not self.timers or not gap.length_us:
            return
        for _, _, timer in self._timers:
            if timer.is_short and timer.set_us < gap.last_at + gap.length_us:
                timer.due_us += gap.length_us
        self._timers = [(timer.due_us, number, timer) for _, number, timer in self._timers]
        heapq.heapify(self._timers)

    # ── results ───────────────────────────────────────────────────────────────────────────────────

    def deliver_at_once(self, seq: int, at: int) -> bool:
        """Delivers the result at this place without a wait, if the job has one task and nothing else of it could run
        or fire before. Returns whether it did."""
        if self.timers or self._paused:
            return False
        if self._queue is None:
            if self.ready_callbacks:
                return False
        elif self._ready and not self._queue.is_quiet():
            return False
        if at > self.now_us:  # noqa: PLR1730 - every result passes here, and a call takes as long again
            self.now_us = at
        while self._gap_seq < seq:
            self._pass_gap()
        return True

    def advance(self, at: int) -> None:
        """Moves job time forward to this time."""
        self.now_us = max(self.now_us, at)

    def begin_code(self) -> None:
        """Called when the job's code starts: it has no callbacks yet."""
        if self._queue is not None:
            self._queue.begin()

    async def turn(self, seq: int, at: int) -> None:
        """Waits until the result at this place is delivered."""
        await self._wait_for(seq, _Delivery(at, self.loop.create_future()))

    async def turn_to_adopt(self, seq: int, at: int) -> None:
        """Waits until everything before the record at this place is delivered. By then the call that the record
        belongs to has claimed it, as in the first run."""
        future: asyncio.Future[None] = self.loop.create_future()
        heapq.heappush(self._adoptions, (seq, next(self._numbers), at, future))
        self.look()
        await future

    async def until_cancelled(self, seq: int, at: int) -> bool:
        """Keeps the call open until the code cancels it, as in the first run. False: the code did not, and the journal
        has been replayed."""
        delivery = _Delivery(at, self.loop.create_future(), is_cancel=True)
        try:
            return await self._wait_for(seq, delivery)
        except asyncio.CancelledError:
            await self.turn(seq, at)
            raise

    async def _wait_for(self, seq: int, delivery: _Delivery) -> bool:
        assert seq not in self._deliveries, f"result {seq} is delivered once"
        assert delivery.future is not None
        self._place(seq, delivery)
        self.look()
        try:
            return await delivery.future
        finally:
            self._deliveries.pop(seq, None)
            self._unrepeated.pop(seq, None)
            if delivery.is_cancel:
                self.look()

    @contextmanager
    def expecting(self, seq: int, at: int) -> Iterator[None]:
        """Reserves the place of a result that is being written to disk; no later result passes it."""
        self._place(seq, _Delivery(at, None))
        try:
            yield
        finally:
            del self._deliveries[seq]
            self.look()

    def _place(self, seq: int, delivery: _Delivery) -> None:
        self._deliveries[seq] = delivery
        heapq.heappush(self._seqs, seq)

    def add_external(self, future: asyncio.Future[Any]) -> None:
        """Registers a thread or process that the code may wait for: until it ends, the job is not judged to be at its
        end."""
        self.externals += 1
        future.add_done_callback(self._external_ended, context=UNMARKED)

    def _external_ended(self, _future: asyncio.Future[Any]) -> None:
        self.externals -= 1
        self.look()

    # ── the loop ──────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Delivers nothing in the block: for the code it takes no job time."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1
            self.look()

    def look(self) -> None:
        """Schedules the next delivery, for when the job's code is at rest."""
        if not self._looking and not self._stopped:
            self._looking = True
            self.loop.call_soon(self._step, context=UNMARKED)

    def look_later(self, seconds: float) -> None:
        """Schedules the next delivery in this many seconds of the clock."""
        if self._second_look is not None:
            self._second_look.cancel()
        self._second_look = self.loop.call_later(seconds, self.look, context=UNMARKED)

    def look_every(self, seconds: float) -> None:
        """Looks again and again: code that waits for something which the engine does not know gives no sign that it is
        at rest."""
        self._regular_look = self.loop.call_later(seconds, self._look_regularly, seconds, context=UNMARKED)

    def _look_regularly(self, seconds: float) -> None:
        self.look()
        self.look_every(seconds)

    def _step(self) -> None:
        is_polling = not self.is_quiet
        if is_polling:
            self._busy_passes += 1
            if self._busy_passes < (STILL_POLLING_PASSES if self._was_polling else POLLING_PASSES):
                self.loop.call_soon(self._step, context=UNMARKED)
                return
        self._was_polling = is_polling
        self._looking, self._busy_passes = False, 0
        if self._paused or self._stopped:
            return
        if self._deliver() or self._go_on(is_polling) or is_polling:
            self.look()

    def _deliver(self) -> bool:
        """Delivers the next result, or fires the timer that precedes it. Returns whether it did."""
        while self._seqs and self._seqs[0] not in self._deliveries:
            heapq.heappop(self._seqs)
        while self._adoptions and self._adoptions[0][3].done():
            heapq.heappop(self._adoptions)
        if self._adoptions and (not self._seqs or self._adoptions[0][0] < self._seqs[0]):
            return self._let_adopt()
        if not self._seqs:
            horizon = self._history.horizon
            return horizon is not None and self._fire_before(*horizon)
        seq = self._seqs[0]
        delivery = self._deliveries[seq]
        if self._fire_before(seq, delivery.at):
            return True
        if delivery.future is None or (delivery.is_cancel and self.externals):
            return False
        if delivery.is_cancel:
            # The code should have cancelled it by now. What was recorded later is delivered first; then it is judged.
            self._unrepeated[seq] = delivery.future
            del self._deliveries[seq]
            return True
        self.now_us = max(self.now_us, delivery.at)
        del self._deliveries[seq]
        self.deliveries += 1
        if not delivery.future.done():
            delivery.future.set_result(True)
        return True

    def _let_adopt(self) -> bool:
        """Lets the next call adopt a record, or fires the timer that precedes the record. Returns whether it did."""
        seq, _, at, future = self._adoptions[0]
        if self._fire_before(seq, at):
            return True
        if self.externals:
            return False
        heapq.heappop(self._adoptions)
        future.set_result(None)
        return True

    def _go_on(self, is_polling: bool) -> bool:
        """Continues when no recorded result can be delivered: whatever comes next is new."""
        if self._deliveries or self._adoptions:
            return False  # on its way to the disk, or behind a thread
        if self._unrepeated and not self.externals:
            unrepeated, self._unrepeated = self._unrepeated, {}
            for future in unrepeated.values():
                if not future.done():
                    future.set_result(False)
            return True
        if self._at_rest(is_polling):
            return True
        while self._gap_seq < NEVER_US:
            if self._fire_due(self._gaps[self._gap].last_at):
                return True
            self._cross_gap()
        if self._fire_due(self._clock.wall_us()):
            return True
        self._set_alarm()
        return False

    def _set_alarm(self) -> None:
        due_us = self.next_timer_us
        if self._alarm is not None:
            if due_us == self._alarm_us:
                return
            self._alarm.cancel()
            self._alarm = None
        if due_us is not None and due_us < NEVER_US:
            self._alarm_us = due_us
            left_s = (due_us - self._clock.wall_us()) / 1_000_000
            self._alarm = self.loop.call_later(max(0.0, left_s), self._ring, context=UNMARKED)

    def _ring(self) -> None:
        self._alarm = None
        self.look()

    def stop(self) -> None:
        """Stops the scheduler at the end of a run: removes its timers from the loop."""
        self._stopped = True
        for timer in (self._alarm, self._second_look, self._regular_look):
            if timer is not None:
                timer.cancel()
        self._alarm = self._second_look = self._regular_look = None

    def forget_run(self) -> None:
        """Drops the references to the run when none of its code runs any more. A timer that a call set and cancelled
        stays on the loop until it would have been due, with its context and our mark in it: the mark must not keep the
        run in memory."""
        self.run = self.inside.scheduler = None

    @property
    def is_quiet(self) -> bool:
        """Whether no code of the job is about to run."""
        queue = self._queue
        return self.ready_callbacks == 0 if queue is None else queue.is_quiet()


# ── hooks of the event loop ───────────────────────────────────────────────────────────────────────


def install(loop: asyncio.AbstractEventLoop) -> None:
    """Makes job code on this loop run in job time; other code on it is not affected.

    An event loop has a hook for tasks but none for timers, so methods of this one loop object are replaced.
    """
    ours: Any = loop
    if isinstance(ours.call_at, _LoopHook):
        return
    call_at, time = loop.call_at, loop.time
    call_later: Callable[..., asyncio.TimerHandle] = loop.call_later
    if hasattr(loop, ready_queue.NAME):

        def call_later_in_loop_time(delay: float, *args: Any, **options: Any) -> asyncio.TimerHandle:
            return call_at(time() + delay, *args, **options)

        # asyncio's own `call_later` uses `loop.time`, which is job time where job code runs. uvloop's does not use it,
        # and its `call_at` calls `call_later`.
        call_later = call_later_in_loop_time
    else:
        ours.call_soon = _CallSoon(loop.call_soon)
    ours.call_at = _CallAt(call_at)
    ours.call_later = _CallLater(call_later)
    ours.time = _make_time(time)
    ours.run_in_executor = _RunInExecutor(loop.run_in_executor)


class _LoopHook:
    """A method of the loop that behaves differently for job code. `_before` is the loop's own."""

    def __init__(self, before: Callable[..., Any]) -> None:
        self._before = before


class _CallAt(_LoopHook):
    def __call__(
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        owner = JOB.get() if context is None else context.get(JOB)
        if type(owner) is ReplayScheduler:
            return owner.call_at(when, callback, args, context)
        timer: asyncio.TimerHandle = self._before(when, callback, *args, context=context)
        return timer


class _CallLater(_LoopHook):
    def __call__(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        owner = JOB.get() if context is None else context.get(JOB)
        if type(owner) is ReplayScheduler:
            return owner.call_at(owner.time() + delay, callback, args, context)
        timer: asyncio.TimerHandle = self._before(delay, callback, *args, context=context)
        return timer


def _make_time(before: Callable[[], float]) -> Callable[[], float]:
    """`loop.time`: for job code, job time. A plain function, because the loop calls it in every pass."""

    def time() -> float:
        owner = JOB.get()
        return owner.time() if type(owner) is ReplayScheduler else before()

    return time


class _RunInExecutor(_LoopHook):
    def __call__(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        owner = JOB.get()
        if type(owner) is not ReplayScheduler:
            plain: asyncio.Future[Any] = self._before(executor, func, *args)
            return plain
        if executor is None or isinstance(executor, ThreadPoolExecutor):
            # The thread gets the job's context, as with `asyncio.to_thread`.
            func = functools.partial(contextvars.copy_context().run, func)
        future: asyncio.Future[Any] = self._before(executor, func, *args)
        owner.add_external(future)
        return future


class _CallSoon(_LoopHook):
    """For a loop that hides its ready queue: counts the callbacks of jobs that are about to run."""

    def __call__(self, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        owner = JOB.get() if context is None else context.get(JOB)
        if type(owner) is not ReplayScheduler:
            return self._before(callback, *args, context=context)
        counted = CountedCallback(owner, callback)
        counted.handle = self._before(counted, *args, context=context)
        return counted
