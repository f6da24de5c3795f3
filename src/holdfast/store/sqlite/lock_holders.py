"""Holders of the write lock of a database file.

A process that is stopped (SIGSTOP, Ctrl-Z) while it writes, or while it waits in the queue to write, blocks every
writer behind it for as long as it is stopped: the kernel releases the locks of a process only when the process ends.
The expiry of its lease does not help, because the worker that would take over its jobs has to write, too. So a writer
that has waited for a second looks for such a process and continues it (SIGCONT). That is safe: what the process then
writes is fenced as every write is. `holdfast doctor` names a process that cannot be continued (it belongs to another
user, or a debugger holds it).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

STOPPED_AFTER_S: Final = 1.0
"""How long a writer waits for the lock before it looks for a stopped process. Ordinary turns are a thousand times
shorter, and the search reads a file for each process of the host."""

_log = logging.getLogger(__name__)

_LOCKS = Path("/proc/locks")
_PROCESSES = Path("/proc")
_STOPPED, _TRACED = "T", "t"
"""States of a process: stopped by a signal, and stopped by a debugger, which no signal can continue."""


class LockHolder(msgspec.Struct, frozen=True):
    pid: int
    stopped: bool


def find_turn_holder(database: Path, locks: str | None = None) -> LockHolder | None:
    """The process that holds the write lock; None if no process holds it, or if this system does not list lock
    holders."""
    lock_file = database.with_name(database.name + "-turn")
    if not lock_file.exists():
        return None
    inode = str(lock_file.stat().st_ino)
    text = locks if locks is not None else _LOCKS.read_text() if _LOCKS.exists() else ""
    for line in text.splitlines():
        fields = line.split()
        # "7: FLOCK ADVISORY WRITE <pid> <device>:<inode> 0 EOF"; a waiter has "->" in the second place.
        if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
            pid = int(fields[4])
            return LockHolder(pid, stopped=_is_stopped(pid))
    return None


def find_stopped_waiters(database: Path) -> list[int]:
    """The stopped processes that have a place in the queue; empty if this system does not list them. A place belongs to
    an open file, and the kernel names its owner only in the process's `fdinfo`."""
    lock_file = database.with_name(database.name + "-gate")
    if not lock_file.exists():
        return []
    place = f":{lock_file.stat().st_ino} "
    return sorted({pid for pid in _list_processes() if _is_stopped(pid) and _has_place(pid, place)})


def find_stopped_writers(database: Path) -> dict[int, str]:
    """The stopped processes that block writers, with the place of each."""
    stopped = dict.fromkeys(find_stopped_waiters(database), "in the line for its turn")
    holder = find_turn_holder(database)
    if holder is not None and holder.stopped:
        stopped[holder.pid] = "inside its turn"
    return stopped


def continue_stopped_writers(database: Path) -> list[int]:
    """Continue each stopped process that holds the write lock or a place in its queue; return those that were
    continued."""
    return sorted(pid for pid in find_stopped_writers(database) if _continue(pid, database))


@contextlib.contextmanager
def continuing_stopped_writers(database: Path) -> Iterator[None]:
    """Inside the block, a thread continues stopped holders of the write lock, so that a wait for it ends. Use it for
    rare operations: it costs a thread."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(STOPPED_AFTER_S):
            continue_stopped_writers(database)

    watcher = threading.Thread(target=look, name="holdfast-write-lock", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _continue(pid: int, database: Path) -> bool:
    if _read_state(pid) != _STOPPED:
        return False
    try:
        os.kill(pid, signal.SIGCONT)
    except OSError:
        return False  # it has ended, or belongs to another user
    _log.warning(
        "process %d was stopped while it held the write lock of %s, which blocked all writers: it was continued",
        pid,
        database.name,
    )
    return True


def _list_processes() -> Iterator[int]:
    if _PROCESSES.exists():
        yield from (int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdecimal())


def _has_place(pid: int, place: str) -> bool:
    try:
        opened = [info.read_text() for info in Path(f"/proc/{pid}/fdinfo").iterdir()]
    except OSError:
        return False  # the process belongs to another user, or has just ended
    lines = [line for text in opened for line in text.splitlines()]
    return any(place in line and ("OFDLCK" in line or "FLOCK" in line) for line in lines)


def _is_stopped(pid: int) -> bool:
    return _read_state(pid) in {_STOPPED, _TRACED} and pid != os.getpid()


def _read_state(pid: int) -> str:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[0]
