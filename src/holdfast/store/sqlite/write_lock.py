"""Whose turn it is to write, among all processes on one database file.

SQLite's own answer to "somebody else is writing" is to sleep a little and look again. The one that has just written
looks first, so it wins again and again: with eight processes one made 1 commit while another made 9,200. A lock file
alone is better, but whoever happens to run when it is given back takes it, before the kernel has woken the one that
waited longest.

So whoever has to wait draws a *ticket*, and stands behind the one before it. Three things on two small files:

    gate     the last ticket that was drawn; drawing one takes a few microseconds, under a lock
    places   byte n of the gate file is locked by the holder of ticket n, from drawing it until its turn is over
    turn     locked by the one who writes

    A holds ticket 7 and the turn.   B holds ticket 8 and waits for place 7.   C holds ticket 9 and waits for place 8.
    A commits, gives back the turn and place 7; the kernel wakes B, and nobody else. A wants to write again: ticket 10.

The places decide the order, the turn decides who may: a place proves nothing. If B dies in the line, its place is free,
C goes forward to the turn, finds it taken and waits there: the order has suffered, and nothing else has. The kernel
drops all of it when a process dies, at any instant, so there is nothing to clean up. And if somebody removes the files,
SQLite's own lock is still there.

Whoever finds no line and no writer goes straight to the turn and draws no ticket: a lone writer pays for two calls of
the kernel.

These locks belong to the open file, not to the process: two stores in one process exclude each other as two processes
do. Systems that lock no bytes that way (all but Linux) take the *gate* to be next and leave it once it is their turn,
which keeps the last writer from walking straight back in, and promises no order beyond that.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.store.sqlite.filesystem import cannot_open

_IN_LINE: Final = sys.platform == "linux"
_LOCK: Final = struct.Struct("hhqqi0q")
"""A lock as the kernel reads it: its type, where offsets begin, the first byte, how many, whose it is."""

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
        """It is our turn. Blocks, without holding the interpreter, as long as others are before us."""
        if not _IN_LINE:
            self._enter_by_the_gate()
            return
        if self.try_enter():
            return
        ticket = self._draw()
        try:
            self._place(fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, ticket - 1)
            self._place(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, ticket - 1)
            fcntl.flock(self._turn, fcntl.LOCK_EX)
        except BaseException:
            self._step_aside()
            raise

    def try_enter(self) -> bool:
        """It is our turn, if nobody else writes or waits; never blocks."""
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
        """The turn goes to the next in the line."""
        # In this order: the next one is woken once, and finds the turn free.
        fcntl.flock(self._turn, fcntl.LOCK_UN)
        self._step_aside()

    def close(self) -> None:
        os.close(self._gate)
        os.close(self._turn)

    # ── the line ──────────────────────────────────────────────────────────────────────────────────

    def _draw(self) -> int:
        """A ticket of our own, and the place that goes with it."""
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            ticket = _last_in(os.pread(self._gate, _TICKET.size, 0)) + 1
            os.pwrite(self._gate, _TICKET.pack(ticket), 0)
            self._place(fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, ticket)
            self._ticket = ticket
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)
        return ticket

    def _step_aside(self) -> None:
        if self._ticket is not None:
            ticket, self._ticket = self._ticket, None
            self._place(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, ticket)

    def _place(self, command: int, kind: int, place: int) -> None:
        fcntl.fcntl(self._gate, command, _LOCK.pack(kind, os.SEEK_SET, place, 1, 0))

    # ── where there is no line ────────────────────────────────────────────────────────────────────

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


def _last_in(written: bytes) -> int:
    """The last ticket; the count begins anew in a file that is new, or that somebody wrote into."""
    last: int = _TICKET.unpack(written)[0] if len(written) == _TICKET.size else 0
    return last if 0 <= last < _TICKETS_MAX else 0


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise cannot_open(path, error) from error
