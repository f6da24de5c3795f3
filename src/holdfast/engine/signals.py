"""Signals: what somebody tells a job by name, and the wait that takes it.

A signal is kept from the moment it is accepted, whether or not anybody waits for it yet. Each is taken by one wait,
those of one name in the order they were sent, and which wait took which is a fact.
"""

from __future__ import annotations

from typing import Any

from holdfast.engine.drive import Drive
from holdfast.engine.timers import set_once
from holdfast.model.append import NOTHING, Extras, Timer
from holdfast.model.events import SignalTaken
from holdfast.model.states import WaitReason


async def wait(drive: Drive, name: str, timeout_us: int | None = None) -> Any:
    """The body of the next signal of this name; TimeoutError, if none came in time since the code first came here."""
    key = drive.place().scope.key(f"wait:{name}")
    recorded = drive.history.find(key, "")
    if recorded is not None and recorded.settled:
        await drive.past(recorded)
        return told(drive, key)
    due_at = None if timeout_us is None else set_once(drive, key, timeout_us, recorded)
    over = NOTHING if due_at is None else Extras(timers=(Timer(key, None),))
    return await take(drive, key, name, WaitReason.SIGNAL, due_at, over)


async def take(
    drive: Drive, key: str, name: str, reason: WaitReason, due_at: int | None, over: Extras = NOTHING
) -> Any:
    """The body of the next signal of this name, which nobody else gets; TimeoutError, if it is late."""
    async with drive.noting_cancel(key, "", 0, over):
        signal, in_time = drive.history.next_signal(name), True
        while signal is None and in_time:
            in_time = await drive.waits.look_again(reason, topic(name), due_at)
            signal = drive.history.next_signal(name)
        taken = SignalTaken(key, name, None if signal is None else signal.mail_seq)
        # Between the look and this line nothing else runs: no two waits take one signal.
        order = drive.recorder.record(taken, extras=over, progress=True)
        drive.history.take(order, taken)
        await drive.handed_over(order)
    return told(drive, key)


def told(drive: Drive, key: str) -> Any:
    """What came of a wait that is over."""
    recorded = drive.history.find(key, "")
    assert recorded is not None
    if recorded.error is not None:
        raise TimeoutError(recorded.error["message"])
    return recorded.result


def topic(name: str) -> str:
    return f"signal:{name}"
