"""Who has the turn on a database file, for `holdfast doctor`: a process stopped inside its turn blocks everybody."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

_LOCKS = Path("/proc/locks")
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


def _is_stopped(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] in _STOPPED and pid != os.getpid()
