"""Group commit: one transaction for the appends of all jobs that are ready.

Every job of this process writes through the same committer. While one transaction is in progress, whatever is recorded
meanwhile waits, and shares the next one: no timers, no tuning, and hundreds of jobs share one flush. A rejected append
does not affect the others.

A single append that a caller waits for is written synchronously if the store is near: the caller continues without
another pass of the loop. Only some of them in a row: the loop has other work, lease renewal included. And not if
several writers hurry within one pass of the loop, or did in the pass before: together they need one flush, written one
by one each would need its own.

Two writers may exist for one job here: one that lost the job and does not know it yet, and one that holds it now. A
transaction takes no two appends of a job, so theirs are written one after the other.
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
"""How long an append waits after the store was unavailable: the first time, the second, and so on."""

PASSES: Final = 3
"""The number of passes of the loop between the last event of a function and the event of its end."""


AT_ONCE_MAX: Final = 8
"""How many appends are written synchronously before the loop gets a pass."""


class GroupCommit:
    """Commits the appends of all writers of a process. Call `close` when no writer is in use any more."""

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

    def wake(self, writer: JournalWriter) -> None:
        """No caller waits yet: the commit starts a few passes of the loop later, with the appends that are ready by
        then. A job whose last step was a read ends within these passes, and its end is in the same commit."""
        self._ready[writer] = None
        if self._going is None and not self._lingering:
            self._lingering = True
            self._linger(PASSES)

    def _linger(self, passes: int) -> None:
        if passes and self._going is None:
            asyncio.get_running_loop().call_soon(self._linger, passes - 1, context=contextvars.Context())
            return
        self._lingering = False
        self._start()

    def hurry(self, writer: JournalWriter) -> None:
        """A caller waits: the commit starts now, unless one is in progress."""
        if not self._hurried:
            asyncio.get_running_loop().call_soon(self._end_pass, context=contextvars.Context())
        self._hurried.add(writer)
        if self._may_write(writer) and self._write_now(writer):
            return
        self._ready[writer] = None
        self._start()

    def _may_write(self, writer: JournalWriter) -> bool:
        """Whether to write synchronously: the store is near, and no other writer has anything to send."""
        if not self._journal.is_near or self._going is not None or self._at_once >= AT_ONCE_MAX:
            return False
        others = len(self._ready) - (writer in self._ready)
        return not others and not self._crowded and len(self._hurried) == 1

    def _end_pass(self) -> None:
        """Called when the loop has made a pass."""
        self._crowded = len(self._hurried) > 1
        self._hurried.clear()
        self._at_once = 0

    def _write_now(self, writer: JournalWriter) -> bool:
        """Writes the writer's append synchronously. Returns whether it did; if not, the next commit finds out why."""
        try:
            append = writer.take()
            head = None if append is None else self._append_now(append)
        except Exception:
            return False
        if head is None:
            return False
        self._at_once += 1
        self._ready.pop(writer, None)
        self._settle(writer, head)
        self._start()  # there may be more events than fit in one append
        return True

    def _append_now(self, append: Append) -> Head | None:
        timed = self._meter.commit([append])
        head = self._journal.append_now(append)
        if head is not None:
            timed.over("committed")
        return head

    def _start(self) -> None:
        if self._going is None and self._ready:
            # The caller of `record` may be a job's code, and a task that it creates would belong to the job.
            self._going = task_scopes.create_detached_task(
                asyncio.get_running_loop(), self._commit_all(), "holdfast-commit"
            )

    async def _commit_all(self) -> None:
        """Commits until no writer has anything to send."""
        try:
            while self._ready:
                writers, self._ready = _split_batch(self._ready)
                sent = [
                    (writer, append) for writer in writers if (append := _take_append(writer)) is not None
                ]
                if not sent:
                    continue
                try:
                    outcomes = await self._append_batch([append for _, append in sent])
                except asyncio.CancelledError:
                    # The loop ends. It is not known whether the appends were written: the same bytes are sent again,
                    # if there is time.
                    self._ready = {**dict.fromkeys(writers), **self._ready}
                    raise
                for (writer, _), outcome in zip(sent, outcomes, strict=True):
                    self._settle(writer, outcome)
        finally:
            self._going = None
            self._start()

    async def _append_batch(self, appends: list[Append]) -> list[Head | HoldfastError]:
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

    def _settle(self, writer: JournalWriter, outcome: Head | HoldfastError) -> None:
        more = writer.settle(outcome)
        if isinstance(outcome, HoldfastError):
            self._meter.record_refusal(outcome)
        if not isinstance(outcome, Unavailable):
            self._failures.pop(writer, None)
            if more:
                self._ready[writer] = None
            return
        # Events recorded meanwhile wait behind the append that was sent: to retry at once would be a busy loop while
        # the store rejects it.
        nth = self._failures[writer] = self._failures.get(writer, 0) + 1
        wait_s = AGAIN_S[min(nth, len(AGAIN_S)) - 1]
        asyncio.get_running_loop().call_later(wait_s, self.wake, writer, context=contextvars.Context())

    async def close(self) -> None:
        """Waits until everything that was queued is written."""
        self._start()  # for writers that wait for `_linger`
        if self._going is not None:
            await self._going


def _split_batch(ready: dict[JournalWriter, None]) -> tuple[list[JournalWriter], dict[JournalWriter, None]]:
    """The first writer of every job, and the writers that wait for the next commit."""
    first: dict[str, JournalWriter] = {}
    for writer in ready:
        first.setdefault(writer.holder.job_id, writer)
    return list(first.values()), {
        writer: None for writer in ready if first[writer.holder.job_id] is not writer
    }


def _take_append(writer: JournalWriter) -> Append | None:
    """The writer's append. A writer that cannot make one is given up, and does not affect the others."""
    try:
        return writer.take()
    except HoldfastError as error:
        writer.give_up(error)
    except Exception as error:  # a bug in sealing one journal must not stop the others
        broken = Broken(f"a journal could not be sealed: {error!r}")
        broken.__cause__ = error
        writer.give_up(broken)
    return None
