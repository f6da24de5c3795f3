"""Durable sleep: a timer in the store, and a fact when it has fired."""

from __future__ import annotations

from holdfast.engine.asked import digest_of
from holdfast.engine.drive import Drive
from holdfast.model.append import Extras, Timer
from holdfast.model.events import TimerFired, TimerSet
from holdfast.model.replay_history import Recorded


async def sleep(drive: Drive, us: int) -> None:
    """So much time has passed since the code first came here, whatever happened meanwhile."""
    key, digest = drive.place().scope.key("sleep"), digest_of(us)
    recorded = drive.history.find(key, digest) or await drive.adopt(key, digest)
    if recorded is not None and recorded.settled and await drive.past(recorded):
        return
    key, due_at = set_timer(drive, key, digest, us, recorded)
    over = Extras(timers=(Timer(key, None),))
    async with drive.noting_cancel(key, digest, 0, over):
        await drive.waits.until(due_at)
        fired = drive.recorder.record(TimerFired(key), extras=over, progress=True, at=drive.job_time(due_at))
        await drive.handed_over(fired)


def set_timer(drive: Drive, key: str, digest: str, us: int, recorded: Recorded | None) -> tuple[str, int]:
    """The key of this timer, and when it is due: as it was set the first time."""
    if recorded is not None and recorded.due_at is not None:
        key, due_at = recorded.step_key, recorded.due_at
        if recorded.was_cancelled:  # that was void, and has removed the timer from the store
            drive.note(TimerSet(key, due_at, digest), extras=Extras(timers=(Timer(key, due_at),)))
        return key, due_at
    due_at = drive.latest_us() + us
    drive.note(TimerSet(key, due_at, digest), extras=Extras(timers=(Timer(key, due_at),)))
    return key, due_at
