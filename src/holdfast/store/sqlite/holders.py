"""Who has the turn on a database file, for `holdfast doctor`: a process stopped inside its turn, or in the line for it,
blocks everybody behind it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

_LOCKS = Path("/proc/locks")
_PROCESSES = Path("/proc")
_STOPPED = frozenset("Tt")


class TurnHolder(msgspec.Struct, frozen=True):
    pid: int
    stopped: bool


def turn_holder(database: Path, locks: str | None = None) -> TurnHolder | None:
    """The process that has the turn right now; None if nobody has, or if this system does not say."""
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
            return TurnHolder(pid, stopped=_is_stopped(pid))
    return None


def stopped_in_line(database: Path) -> list[int]:
    """Processes that have a place in the line and are stopped; none, if this system does not say. A place belongs to
    an open file, and the kernel names its owner only beside that."""
    lock_file = database.with_name(database.name + "-gate")
    if not lock_file.exists():
        return []
    place = f":{lock_file.stat().st_ino} "
    return sorted({pid for pid in _processes() if _is_stopped(pid) and _has_place(pid, place)})


def _processes() -> Iterator[int]:
    if _PROCESSES.exists():
        yield from (int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdecimal())


def _has_place(pid: int, place: str) -> bool:
    try:
        opened = [info.read_text() for info in Path(f"/proc/{pid}/fdinfo").iterdir()]
    except OSError:
        return False  # it is another user's, or has just ended
    return any("OFDLCK" in line and place in line for text in opened for line in text.splitlines())


def _is_stopped(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] in _STOPPED and pid != os.getpid()
