"""Suspension: durable sleeps and signals, the waits of job code during which no worker needs to hold the job
(`wait_set`).

A durable sleep is a timer in the store, and an event when it has fired.

A signal is stored from the moment it is accepted, whether or not the job waits for it yet. Each is taken by one wait,
those of one name in the order they were sent; an event records which wait took which signal.
"""

from __future__ import annotations

from typing import Any

from holdfast.engine.durable_call import digest_of
from holdfast.engine.execution import Execution
from holdfast.model.append import NOTHING, Extras, Timer
from holdfast.model.events import SignalTaken, TimerFired, TimerSet
from holdfast.model.replay_history import Recorded
from holdfast.model.states import WaitReason


async def sleep(execution: Execution, us: int) -> None:
    """Sleeps until this time has passed since the code first called it, whatever happens meanwhile."""
    key, digest = execution.place().scope.key("sleep"), digest_of(us)
    recorded = execution.history.find(key, digest) or await execution.adopt(key, digest)
    if recorded is not None and recorded.settled and await execution.wait_for_outcome(recorded):
        return
    key, due_at = set_timer(execution, key, digest, us, recorded)
    over = Extras(timers=(Timer(key, None),))
    async with execution.noting_cancel(key, digest, 0, over):
        await execution.waits.until(due_at)
        fired = execution.recorder.record(
            TimerFired(key), extras=over, progress=True, at=execution.job_time(due_at)
        )
        await execution.hand_over(fired)


def set_timer(
    execution: Execution, key: str, digest: str, us: int, recorded: Recorded | None
) -> tuple[str, int]:
    """The key of this timer, and when it is due: as it was set in the first run."""
    if recorded is not None and recorded.due_at is not None:
        key, due_at = recorded.step_key, recorded.due_at
        if recorded.was_cancelled:  # that cancel was void, but has removed the timer from the store
            execution.note(TimerSet(key, due_at, digest), extras=Extras(timers=(Timer(key, due_at),)))
        return key, due_at
    due_at = execution.latest_us() + us
    execution.note(TimerSet(key, due_at, digest), extras=Extras(timers=(Timer(key, due_at),)))
    return key, due_at


async def wait(execution: Execution, name: str, timeout_us: int | None = None) -> Any:
    """Returns the body of the next signal of this name; TimeoutError, if none came in time since the code first called
    it."""
    key, digest = execution.place().scope.key(f"wait:{name}"), digest_of([name, timeout_us])
    recorded = execution.history.find(key, digest) or await execution.adopt(key, digest)
    if recorded is not None and recorded.settled and await execution.wait_for_outcome(recorded):
        return read_result(recorded)
    due_at = None
    if timeout_us is not None:
        key, due_at = set_timer(execution, key, digest, timeout_us, recorded)
    return await take_signal(
        execution, key, digest, name, WaitReason.SIGNAL, due_at, has_timer=due_at is not None
    )


async def take_signal(
    execution: Execution,
    key: str,
    digest: str,
    name: str,
    reason: WaitReason,
    due_at: int | None,
    *,
    has_timer: bool = False,
) -> Any:
    """Takes the next signal of this name, which no other wait gets, and returns its body; TimeoutError, if
    it is late."""
    over = Extras(timers=(Timer(key, None),)) if has_timer else NOTHING
    async with execution.noting_cancel(key, digest, 0, over):
        signal, in_time = execution.history.next_signal(name), True
        while signal is None and in_time:
            in_time = await execution.waits.wait_for_topic(reason, signal_topic(name), due_at)
            signal = execution.history.next_signal(name)
        event = SignalTaken(key, name, None if signal is None else signal.mail_seq, digest)
        at = execution.job_time(due_at) if signal is None and due_at is not None else None
        # No other code runs between the look and this line: no two waits take one signal.
        stamp = execution.note(event, extras=over, progress=True, at=at)
        await execution.hand_over(stamp)
    recorded = execution.history.find(key, digest)
    assert recorded is not None
    return read_result(recorded)


def read_result(recorded: Recorded) -> Any:
    """The result of a wait that is over: the signal's body, or TimeoutError."""
    if recorded.error is not None:
        raise TimeoutError(recorded.error["message"])
    return recorded.result


def signal_topic(name: str) -> str:
    return f"signal:{name}"
