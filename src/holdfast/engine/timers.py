"""Durable sleep: a timer in the store, and a fact when it has fired."""

from __future__ import annotations

from holdfast.engine.drive import Drive
from holdfast.model.append import Extras, Timer
from holdfast.model.events import TimerFired, TimerSet
from holdfast.model.history import Recorded


async def sleep(drive: Drive, us: int) -> None:
    """So much time has passed since the code first came here, whatever happened meanwhile."""
    key = drive.place().scope.key("sleep")
    recorded = drive.history.find(key, "")
    if recorded is not None and recorded.settled:
        await drive.past(recorded)
        return
    due_at = set_once(drive, key, us, recorded)
    over = Extras(timers=(Timer(key, None),))
    async with drive.noting_cancel(key, "", 0, over):
        await drive.waits.until(due_at)
        await drive.handed_over(drive.recorder.record(TimerFired(key), extras=over, progress=True))


def set_once(drive: Drive, key: str, us: int, recorded: Recorded | None) -> int:
    """When the timer of this key is due: as it was set the first time."""
    if recorded is not None and recorded.due_at is not None:
        return recorded.due_at
    due_at = drive.latest_us() + us
    drive.recorder.record(TimerSet(key, due_at), extras=Extras(timers=(Timer(key, due_at),)))
    return due_at
