"""Processes of this host, as the kernel shows them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

from holdfast.model.worker_identity import Identity, Sight

_PROC: Final = Path("/proc")
_STATE, _THREADS, _BEGAN = 0, 17, 19
"""Fields of /proc/PID/stat, counted from behind the name."""


class Processes(Protocol):
    """Who this process is, and whether another one is there."""

    def here(self) -> Identity | None:
        """This process; None where the host has no way to tell processes apart."""
        ...

    def look_up(self, pid: int) -> int | Sight:
        """When the process with this pid began, or that there is none, or that nobody can tell."""
        ...


class HostProcesses:
    """What /proc says. On a host without it nobody has an identity, and nobody is proven dead."""

    def __init__(self, boot: str) -> None:
        self._boot = boot

    def here(self) -> Identity | None:
        try:
            space = (_PROC / "self" / "ns" / "pid").stat().st_ino
        except OSError:
            return None
        began = self.look_up(os.getpid())
        return None if isinstance(began, Sight) else Identity(self._boot, space, os.getpid(), began)

    def look_up(self, pid: int) -> int | Sight:
        try:
            text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            # Hidden from us is not the same as gone: only the kernel's own answer to a signal of nothing counts.
            return _asked(pid)
        except OSError:
            return Sight.UNKNOWN
        # The name may hold anything, spaces and brackets included; behind its last bracket are only words.
        fields = text.rpartition(")")[2].split()
        if len(fields) <= _BEGAN:
            return Sight.UNKNOWN
        # Killed, and its parent has not looked yet: it will never run again. (A leader whose threads still run looks
        # the same but for their number.)
        if fields[_STATE] in "ZX" and int(fields[_THREADS]) <= 1:
            return Sight.GONE
        return int(fields[_BEGAN])

    def is_stopped(self, pid: int) -> bool:
        """Whether the process was stopped by a signal, or by a debugger, and not gone on since."""
        try:
            text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        fields = text.rpartition(")")[2].split()
        return bool(fields) and fields[_STATE] in "Tt"


def _asked(pid: int) -> Sight:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Sight.GONE
    except OSError:
        return Sight.UNKNOWN
    return Sight.UNKNOWN
