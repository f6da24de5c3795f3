"""Write lock: a fair lock (ticket lock) among all processes that write to one database file.

While another process writes, SQLite sleeps a little and tries again. The process that has just written tries first, so
it wins again and again: with eight processes one made 1 commit while another made 9,200. A single lock file is better,
but the process that happens to run when the lock is released takes it, before the kernel has woken the process that has
waited longest.

So a process that has to wait draws a *ticket*, and waits for the holder of the ticket before it. There are three kinds
of lock on two small files:

    gate     the last ticket that was drawn; drawing one takes a few microseconds, under a lock
    places   byte n of the gate file is locked by the holder of ticket n, from drawing it until its turn is over
    turn     locked by the process that writes

    A holds ticket 7 and the turn.   B holds ticket 8 and waits for place 7.   C holds ticket 9 and waits for place 8.
    A commits, releases the turn and place 7; the kernel wakes B alone. To write again, A draws ticket 10.

The places decide the order; only the turn gives the right to write. If B dies while it waits, its place is free: C goes
on to the turn, finds it locked and waits there. The order has changed, and nothing else. The kernel releases all these
locks when a process dies, at any instant, so there is nothing to clean up. If the files are removed, SQLite's own lock
still excludes writers from each other.

A process that finds no waiters and no writer locks the turn at once and draws no ticket: a lone writer pays for two
system calls.

These locks belong to the open file, not to the process: two stores in one process exclude each other as two processes
do. On systems without such byte locks (all but Linux) a process locks the *gate* to be next and releases it once it has
the turn. That keeps the last writer from writing again at once, and guarantees no order beyond that.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.store.sqlite.filesystem import make_open_error

_IN_LINE: Final = sys.platform == "linux"
_LOCK: Final = struct.Struct("hhqqi0q")
"""`struct flock`: the type of lock, where offsets begin, the first byte, how many bytes, the owner."""

_TICKET: Final = struct.Struct("<q")
_TICKETS_MAX: Final = 2**62
_ALL: Final = 0
_NOBODY: Final = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, _ALL, 0)


class WriteLock:
    """A fair lock between processes, on two small files beside the database."""

    def __init__(self, database: Path) -> None:
        self._ticket: int | None = None
        self._gate = _open(database.with_name(database.name + "-gate"))
        try:
            self._turn = _open(database.with_name(database.name + "-turn"))
        except HoldfastError:
            os.close(self._gate)
            raise

    def enter(self) -> None:
        """Acquire the lock. Blocks while other processes are before this one; other threads run meanwhile."""
        if not _IN_LINE:
            self._enter_by_the_gate()
            return
        if self.try_enter():
            return
        ticket = self._draw_ticket()
        try:
            self._lock_place(fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, ticket - 1)
            self._lock_place(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, ticket - 1)
            fcntl.flock(self._turn, fcntl.LOCK_EX)
        except BaseException:
            self._release_ticket()
            raise

    def try_enter(self) -> bool:
        """Acquire the lock if no other process writes or waits; never blocks. Returns whether it was acquired."""
        if not _IN_LINE:
            return self._try_the_gate()
        if _LOCK.unpack(fcntl.fcntl(self._gate, fcntl.F_OFD_GETLK, _NOBODY))[0] != fcntl.F_UNLCK:
            return False
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def leave(self) -> None:
        """Release the lock to the next waiter."""
        # In this order: the next process is woken once, and finds the turn free.
        fcntl.flock(self._turn, fcntl.LOCK_UN)
        self._release_ticket()

    def close(self) -> None:
        os.close(self._gate)
        os.close(self._turn)

    # ── tickets ───────────────────────────────────────────────────────────────────────────────────

    def _draw_ticket(self) -> int:
        """Draw a ticket and lock the place of its number."""
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            ticket = _parse_last_ticket(os.pread(self._gate, _TICKET.size, 0)) + 1
            os.pwrite(self._gate, _TICKET.pack(ticket), 0)
            self._lock_place(fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, ticket)
            self._ticket = ticket
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)
        return ticket

    def _release_ticket(self) -> None:
        if self._ticket is not None:
            ticket, self._ticket = self._ticket, None
            self._lock_place(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, ticket)

    def _lock_place(self, command: int, kind: int, place: int) -> None:
        fcntl.fcntl(self._gate, command, _LOCK.pack(kind, os.SEEK_SET, place, 1, 0))

    # ── systems without byte locks ────────────────────────────────────────────────────────────────

    def _enter_by_the_gate(self) -> None:
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def _try_the_gate(self) -> bool:
        try:
            fcntl.flock(self._gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)
        return True


def _parse_last_ticket(written: bytes) -> int:
    """The last ticket; 0 in a file that is new or does not hold a valid number."""
    last: int = _TICKET.unpack(written)[0] if len(written) == _TICKET.size else 0
    return last if 0 <= last < _TICKETS_MAX else 0


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise make_open_error(path, error) from error
