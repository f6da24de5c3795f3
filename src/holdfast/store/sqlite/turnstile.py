"""Whose turn it is to write, among all processes on one database file.

SQLite's own answer to "somebody else is writing" is to sleep a little and look again. The one that has just written
looks first, so it wins again and again: with eight processes one made 1 commit while another made 9,200. A lock file
alone is better, but still lets the last writer walk straight back in.

So there are two locks, and one rule: you take the *gate* to be next, and leave it only once it is your *turn*.

    writer A   holds the turn, commits, gives it back … wants to write again: the gate is taken, A queues behind it
    writer B   has held the gate all along, so the turn can only go to B

Whoever is next is decided while the present writer still writes, and never is the one who just did. The kernel drops
both locks when a process dies, at any instant, so there is nothing to clean up.

`flock` belongs to the open file, not to the process: two stores in one process exclude each other as two processes do.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.store.sqlite.filesystem import cannot_open


class Turnstile:
    """A fair lock between processes, on two small files beside the database."""

    def __init__(self, database: Path) -> None:
        self._gate = _open(database.with_name(database.name + "-gate"))
        try:
            self._turn = _open(database.with_name(database.name + "-turn"))
        except HoldfastError:
            os.close(self._gate)
            raise

    def enter(self) -> None:
        """It is our turn. Blocks, without holding the interpreter, as long as others are before us."""
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def try_enter(self) -> bool:
        """It is our turn, if nobody else writes or waits; never blocks."""
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

    def leave(self) -> None:
        """The turn goes to whoever holds the gate."""
        fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._gate)
        os.close(self._turn)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise cannot_open(path, error) from error
