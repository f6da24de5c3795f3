"""SQLite executor: one writer at a time, group commit, concurrent readers.

Writing
    Units of work wait in a queue. One *turn* takes all queued units, runs them inside one BEGIN IMMEDIATE, each unit in
    a savepoint of its own, commits once, and only then returns the results. While that commit waits for the disk, the
    next batch forms in the queue: no timers are needed, and hundreds of jobs share one fsync.

    A change of thread costs about as much as the fsync. So a single unit runs its turn on the event loop itself, if
    the queue is otherwise empty, no other process or thread writes, and recent commits were quick. Otherwise the writer
    thread runs the turn, and the loop goes on.

Turns between processes
    See `write_lock`. The lock is acquired before BEGIN and released after COMMIT, so SQLite never reports "locked".

Failures
    A unit raises: its savepoint is rolled back, and the other units of the batch are not affected. The commit raises:
    every unit of the batch fails. The disk is full in the middle: SQLite may have rolled back the whole transaction,
    and then every unit fails with that error. A caller's time limit ends: its unit is removed from the queue; if the
    unit has begun, the caller waits for it. So StoreBusy always means that nothing was written.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeVar

import apsw

from holdfast.errors import HoldfastError, Misuse, StoreBusy, StoreUnavailable
from holdfast.store.executor import Row, Transaction, Value, Work
from holdfast.store.sqlite.connection import connect
from holdfast.store.sqlite.errors import translate, translate_commit
from holdfast.store.sqlite.lock_holders import STOPPED_AFTER_S, continue_stopped_writers
from holdfast.store.sqlite.transaction import SqliteTransaction, drive
from holdfast.store.sqlite.unit_of_work import QueuedUnit, TransactionRolledBack, UnitOfWork
from holdfast.store.sqlite.wakeups import FileWakeups
from holdfast.store.sqlite.write_lock import WriteLock
from holdfast.store.store_clock import HostStoreClock

T = TypeVar("T")

QUICK_S: Final = 0.0025
"""While commits take longer than this, turns do not run on the event loop."""

BATCH_MAX: Final = 512
"""Units in one commit: enough to make the fsync cheap, few enough that the first of them does not wait long."""

READERS: Final = 4


class SqliteExecutor:
    batches = False
    seals = False

    def __init__(
        self,
        path: Path,
        writer: apsw.Connection,
        clock: HostStoreClock,
        wakeups: FileWakeups,
        *,
        vfs: str | None = None,
        patience_s: float = 10.0,
    ) -> None:
        self.path = path
        self.writer = writer
        self.write_lock = WriteLock(path)
        self._clock = clock
        self._wakeups = wakeups
        self._vfs = vfs
        self._patience_s = patience_s
        self._process = os.getpid()
        self._queue: deque[QueuedUnit[Any]] = deque()
        self._queued = threading.Condition()
        self._writing = threading.Lock()
        self._watched: set[asyncio.AbstractEventLoop] = set()
        self._commit_s = 0.0
        self._closing = False
        self._thread: threading.Thread | None = None
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="holdfast-read")
        self._idle_readers: deque[apsw.Connection] = deque()

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    async def write(self, work: Work[T], *, gathered: bool = False) -> T:
        (unit,) = self._enqueue([work], gathered=gathered)
        return await unit.future

    async def run_statement(self, statement: str, /, **values: Value) -> Sequence[Row]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows(statement, **values)

        return await self.write(work)

    def send_wakeups(self, topics: Iterable[str]) -> None:
        self._wakeups.send_wakeups(topics)

    async def write_each(self, works: Sequence[Work[T]]) -> list[T | HoldfastError]:
        units = self._enqueue(works)
        outcomes = await asyncio.gather(*(unit.future for unit in units), return_exceptions=True)
        return [_raise_unless_ours(outcome) for outcome in outcomes]

    def _enqueue(self, works: Sequence[Work[T]], *, gathered: bool = False) -> list[QueuedUnit[T]]:
        self._must_be_ours()
        loop = asyncio.get_running_loop()
        units = [QueuedUnit(work, loop) for work in works]
        with self._queued:
            alone = not self._queue
            self._queue.extend(units)
            if loop not in self._watched:
                self._watched.add(loop)
                loop.call_later(min(self._patience_s, STOPPED_AFTER_S), self._watch, loop)
        if alone and gathered:
            self._flush(loop)
        elif alone:
            # After one pass of the event loop, every task that was ready to write has queued its unit.
            loop.call_soon(self._flush, loop)
        return units

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the queued work: on this thread if that is quick, else on the writer thread."""
        if len(self._queue) == 1 and self._may_write_here():
            try:
                batch = self._run_batch()
            finally:
                self._release_here()
            self._deliver_results(batch, loop)
            return
        with self._queued:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_on, name="holdfast-write", daemon=True)
                self._thread.start()
            self._queued.notify()

    def write_now(self, work: Work[T]) -> T | None:
        self._must_be_ours()
        if self._queue or not self._may_write_here():
            return None
        unit = UnitOfWork(work)
        try:
            self._commit_timed([unit])
        finally:
            self._release_here()
        self._wakeups.send_wakeups(unit.hints)
        if isinstance(unit.outcome, BaseException):
            raise unit.outcome
        return unit.outcome

    def _may_write_here(self) -> bool:
        """Acquire the write lock for this thread, if recent commits were quick and no other thread or process writes or
        waits."""
        if self._commit_s >= QUICK_S or not self._writing.acquire(blocking=False):
            return False
        if self.write_lock.try_enter():
            return True
        self._writing.release()
        return False

    def _release_here(self) -> None:
        self.write_lock.leave()
        self._writing.release()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check the units of this loop that wait: continue a stopped process that holds the write lock, and fail the
        units that have waited too long; check again when the next one is due."""
        now = loop.time()
        with self._queued:
            waiting = [unit for unit in self._queue if unit.loop is loop and not unit.future.done()]
            late = [unit for unit in waiting if unit.asked + self._patience_s <= now]
            for unit in late:
                self._queue.remove(unit)
            others = [unit.asked for unit in waiting if unit not in late]
            if others:
                first = min(others)
                looked_at = now if first + STOPPED_AFTER_S <= now else first
                due = min(looked_at + STOPPED_AFTER_S, first + self._patience_s)
                loop.call_at(due, self._watch, loop)
            else:
                self._watched.discard(loop)
        if any(unit.asked + STOPPED_AFTER_S <= now for unit in waiting):
            continue_stopped_writers(self.path)
        for unit in late:
            msg = f"the write lock of {self.path.name} was not free within {self._patience_s:g} s; nothing was written"
            unit.outcome = StoreBusy(
                msg, hint="A stopped process may hold the file; `holdfast doctor` names it."
            )
            unit.deliver_result()

    def _write_on(self) -> None:
        """Writer thread: run a turn whenever units are queued."""
        while True:
            with self._queued:
                while not self._queue and not self._closing:
                    self._queued.wait()
                if not self._queue:
                    return
            # The event loop's thread uses the same write lock, and the kernel does not tell the two threads apart. So
            # only one of them may hold or await it: the other would release its place, or its turn within a
            # transaction.
            with self._writing:
                self.write_lock.enter()
                try:
                    batch = self._run_batch()
                finally:
                    self.write_lock.leave()
            self._deliver_results(batch, None)

    def _run_batch(self) -> list[QueuedUnit[Any]]:
        """Run and commit the queued units, up to BATCH_MAX. Call it while holding the write lock."""
        with self._queued:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_MAX))]
            batch = [unit for unit in batch if not unit.future.cancelled()]
            for unit in batch:
                unit.begun = True
            has_more = bool(self._queue)
        self._commit_timed(batch)
        if has_more:
            with self._queued:
                self._queued.notify()
        return batch

    def _deliver_results(
        self, batch: Sequence[QueuedUnit[Any]], this_loop: asyncio.AbstractEventLoop | None
    ) -> None:
        """Deliver the results of the batch. This runs after the turn: a process that is stopped by a result does not
        hold the write lock."""
        for unit in batch:
            if unit.loop is this_loop:
                unit.deliver_result()
            else:
                # A loop that was closed meanwhile has no caller left.
                with contextlib.suppress(RuntimeError):
                    unit.loop.call_soon_threadsafe(unit.deliver_result)
        self._wakeups.send_wakeups(topic for unit in batch for topic in unit.hints)

    def _commit_timed(self, batch: Sequence[UnitOfWork[Any]]) -> None:
        began = perf_counter()
        self._commit(batch)
        self._commit_s += (perf_counter() - began - self._commit_s) / 4

    def _commit(self, batch: Sequence[UnitOfWork[Any]]) -> None:
        """Run the batch in one transaction and set the outcome of every unit."""
        try:
            self.writer.execute("BEGIN IMMEDIATE")
            for unit in batch:
                self._run(unit, alone=len(batch) == 1)
            if self._clock.is_write_due():
                drive(self._keep_clock, SqliteTransaction(self.writer, self._clock))
            self.writer.execute("COMMIT")
        except apsw.Error as error:
            self._undo()
            for unit in batch:
                if not isinstance(unit.outcome, BaseException):
                    unit.outcome = translate_commit(error)
                unit.hints.clear()
        except TransactionRolledBack as undone:
            self._undo()
            for unit in batch:
                unit.outcome = undone.cause
                unit.hints.clear()

    async def _keep_clock(self, tx: Transaction) -> None:
        """Record the time that the store has seen, with a commit that is made anyway."""
        await tx.run("save_store_clock", **self._clock.row())

    def _run(self, unit: UnitOfWork[Any], *, alone: bool) -> None:
        tx = SqliteTransaction(self.writer, self._clock)
        if not alone:
            self.writer.execute("SAVEPOINT unit")
        try:
            unit.outcome = drive(unit.work, tx)
            unit.hints = tx.hints
        except Exception as error:
            unit.outcome = error
            if alone or self.writer.get_autocommit():
                # A single unit has no neighbours to keep; or SQLite itself has rolled back the whole transaction.
                raise TransactionRolledBack(error) from error
            self.writer.execute("ROLLBACK TO unit")
        if not alone:
            self.writer.execute("RELEASE unit")

    def _undo(self) -> None:
        """Roll the transaction back. A rollback that reports an error has still happened."""
        if not self.writer.get_autocommit():
            with contextlib.suppress(apsw.Error):
                self.writer.execute("ROLLBACK")

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    async def read(self, work: Work[T], *, snapshot: bool = False, brief: bool = False) -> T:
        self._must_be_ours()
        if brief:
            return self._read_here(work, snapshot)
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work, snapshot)

    def _read_here(self, work: Work[T], snapshot: bool) -> T:
        """Read on the writer's connection, if no thread writes: its page cache has the pages that it has written, while
        a reader has to fetch what was changed since its last read."""
        if not snapshot and self._writing.acquire(blocking=False):
            try:
                if self.writer.get_autocommit():
                    return self._run_read(self.writer, work, snapshot=False)
            finally:
                self._writing.release()
        return self._read(work, snapshot)

    def _read(self, work: Work[T], snapshot: bool) -> T:
        try:
            reader = self._idle_readers.popleft()
        except IndexError:
            reader = connect(self.path, vfs=self._vfs)
        try:
            return self._run_read(reader, work, snapshot)
        finally:
            # A reader that could not end its snapshot would return that state for ever.
            if reader.get_autocommit():
                self._idle_readers.append(reader)
            else:
                reader.close()

    def _run_read(self, connection: apsw.Connection, work: Work[T], snapshot: bool) -> T:
        tx = SqliteTransaction(connection, self._clock)
        try:
            if not snapshot:
                return drive(work, tx)
            connection.execute("BEGIN")
            try:
                return drive(work, tx)
            finally:
                connection.execute("COMMIT")
        except apsw.Error as error:
            raise translate(error, "snapshot") from error

    async def check_integrity(self) -> list[str]:
        """The problems that SQLite itself finds in the file."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._check_integrity)

    def _check_integrity(self) -> list[str]:
        reader = connect(self.path, vfs=self._vfs)
        try:
            found = [str(row[0]) for row in reader.execute("PRAGMA integrity_check").fetchall()]
            keys = [
                f"{row[0]} row {row[1]} points at a missing {row[2]}"
                for row in reader.execute("PRAGMA foreign_key_check").fetchall()
            ]
        except apsw.Error as error:
            return [str(error)]
        finally:
            reader.close()
        return [line for line in found if line != "ok"] + keys

    # ── ending ────────────────────────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """Write what is queued, end the writer thread, close every file."""
        if self._closing:
            return
        with self._queued:
            self._closing = True
            self._queued.notify_all()
        thread = self._thread
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._readers, thread.join, self._patience_s)
        self._readers.shutdown(wait=True)
        while self._idle_readers:
            self._idle_readers.popleft().close()
        self.writer.close()
        self.write_lock.close()

    def _must_be_ours(self) -> None:
        if self._closing:
            msg = "the store is closed"
            raise StoreUnavailable(msg, hint="Open it again.")
        if os.getpid() != self._process:
            msg = "this store was opened before a fork"
            raise Misuse(
                msg, hint="Open the store in the child process; SQLite connections do not survive a fork."
            )


def _raise_unless_ours(outcome: T | BaseException) -> T | HoldfastError:
    """Return a result or one of our errors; raise anything else, which is a bug."""
    if isinstance(outcome, BaseException) and not isinstance(outcome, HoldfastError):
        raise outcome
    return outcome
