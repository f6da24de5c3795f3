"""One trip to the disk for everybody who is ready.

Every job of this process writes through the same committer. While one transaction is on its way, whatever is recorded
meanwhile waits, and goes together with the next: no timers, no tuning, and hundreds of jobs share one flush. An append
that is refused harms no other.

An append that is alone, and that somebody waits for, does not travel at all if the store is near: it is written on the
spot, and whoever waited goes on without another pass of the loop. Only some of them in a row: the loop has others to
look after, leases among them. And not where several pens are in a hurry within one pass of the loop, or were in the
one before: together they need one flush, on the spot each would need its own.

Two pens may write one job here: one that lost the job and does not know it yet, and one that holds it now. They travel
one after the other; a trip takes no two appends of a job.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import Final

from holdfast.engine import task_scopes
from holdfast.engine.journal_writer import JournalWriter
from holdfast.engine.telemetry import SILENT, Telemetry
from holdfast.errors import Broken, HoldfastError, Unavailable
from holdfast.model.append import Append
from holdfast.model.hash_chain import Head
from holdfast.store.ports.journal import Journal

AGAIN_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""How long an append rests that the store could not take, the first time and after."""

PASSES: Final = 3
"""As many as lie between the last fact of a function and the fact that it has ended."""


AT_ONCE_MAX: Final = 8
"""Appends that are written on the spot before the loop gets to breathe."""


class GroupCommit:
    """Call `close` when no pen is in use any more."""

    def __init__(self, journal: Journal, meter: Telemetry = SILENT) -> None:
        self._journal = journal
        self._meter = meter
        self._ready: dict[JournalWriter, None] = {}
        self._failures: dict[JournalWriter, int] = {}
        self._going: asyncio.Task[None] | None = None
        self._lingering = False
        self._hurried: set[JournalWriter] = set()
        self._at_once = 0
        self._crowded = False

    def wake(self, pen: JournalWriter) -> None:
        """Nobody waits yet: the trip starts a few passes of the loop later, with whatever has come by then. A job whose
        last step was a read ends within them, and its end goes along."""
        self._ready[pen] = None
        if self._going is None and not self._lingering:
            self._lingering = True
            self._linger(PASSES)

    def _linger(self, passes: int) -> None:
        if passes and self._going is None:
            asyncio.get_running_loop().call_soon(self._linger, passes - 1, context=contextvars.Context())
            return
        self._lingering = False
        self._start()

    def hurry(self, pen: JournalWriter) -> None:
        """Somebody waits: the trip starts now, unless one is on its way."""
        if not self._hurried:
            asyncio.get_running_loop().call_soon(self._breathed, context=contextvars.Context())
        self._hurried.add(pen)
        if self._may_write(pen) and self._written(pen):
            return
        self._ready[pen] = None
        self._start()

    def _may_write(self, pen: JournalWriter) -> bool:
        """Whether to try it on the spot: the store is near, and nobody else has anything to send."""
        if not self._journal.is_near or self._going is not None or self._at_once >= AT_ONCE_MAX:
            return False
        others = len(self._ready) - (pen in self._ready)
        return not others and not self._crowded and len(self._hurried) == 1

    def _breathed(self) -> None:
        """The loop has gone on."""
        self._crowded = len(self._hurried) > 1
        self._hurried.clear()
        self._at_once = 0

    def _written(self, pen: JournalWriter) -> bool:
        """What the pen has to say was written on the spot. If not, the trip finds out why."""
        try:
            append = pen.take()
            head = None if append is None else self._now(append)
        except Exception:
            return False
        if head is None:
            return False
        self._at_once += 1
        self._ready.pop(pen, None)
        self._told(pen, head)
        self._start()  # more may have been said than fits in one append
        return True

    def _now(self, append: Append) -> Head | None:
        timed = self._meter.commit([append])
        head = self._journal.append_now(append)
        if head is not None:
            timed.over("committed")
        return head

    def _start(self) -> None:
        if self._going is None and self._ready:
            # Whoever records may be a job's code, and a task of that would be the job's own.
            self._going = task_scopes.create_detached_task(
                asyncio.get_running_loop(), self._go(), "holdfast-commit"
            )

    async def _go(self) -> None:
        """Trips until nobody has anything to send."""
        try:
            while self._ready:
                pens, self._ready = _of_one_trip(self._ready)
                sent = [(pen, append) for pen in pens if (append := _taken(pen)) is not None]
                if not sent:
                    continue
                try:
                    outcomes = await self._trip([append for _, append in sent])
                except asyncio.CancelledError:
                    # The loop ends. Whether it was written is not known: the same bytes go once more, if there is time.
                    self._ready = {**dict.fromkeys(pens), **self._ready}
                    raise
                for (pen, _), outcome in zip(sent, outcomes, strict=True):
                    self._told(pen, outcome)
        finally:
            self._going = None
            self._start()

    async def _trip(self, appends: list[Append]) -> list[Head | HoldfastError]:
        timed, how = self._meter.commit(appends), "committed"
        try:
            return await self._journal.append_many(appends)
        except HoldfastError as error:
            how = error.code
            return [error] * len(appends)
        except Exception as error:
            broken = Broken(f"the store failed unexpectedly: {error!r}")
            broken.__cause__, how = error, broken.code
            return [broken] * len(appends)
        finally:
            timed.over(how)

    def _told(self, pen: JournalWriter, outcome: Head | HoldfastError) -> None:
        more = pen.settle(outcome)
        if isinstance(outcome, HoldfastError):
            self._meter.record_refusal(outcome)
        if not isinstance(outcome, Unavailable):
            self._failures.pop(pen, None)
            if more:
                self._ready[pen] = None
            return
        # What came meanwhile waits behind what was sent: at once again would be a loop as tight as the store is quick
        # to refuse.
        nth = self._failures[pen] = self._failures.get(pen, 0) + 1
        wait_s = AGAIN_S[min(nth, len(AGAIN_S)) - 1]
        asyncio.get_running_loop().call_later(wait_s, self.wake, pen, context=contextvars.Context())

    async def close(self) -> None:
        """What was on its way has arrived."""
        self._start()  # whatever still lingers
        if self._going is not None:
            await self._going


def _of_one_trip(ready: dict[JournalWriter, None]) -> tuple[list[JournalWriter], dict[JournalWriter, None]]:
    """The first pen of every job, and those that wait for the next trip."""
    first: dict[str, JournalWriter] = {}
    for pen in ready:
        first.setdefault(pen.holder.job_id, pen)
    return list(first.values()), {pen: None for pen in ready if first[pen.holder.job_id] is not pen}


def _taken(pen: JournalWriter) -> Append | None:
    """What the pen has to send. One that cannot say it is given up, and harms no other."""
    try:
        return pen.take()
    except HoldfastError as error:
        pen.give_up(error)
    except Exception as error:  # a fault of ours in one journal must not stop all the others
        broken = Broken(f"a journal could not be sealed: {error!r}")
        broken.__cause__ = error
        pen.give_up(broken)
    return None
