"""Processes of this host, as the kernel shows them: the proof that the process of a worker is gone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

from holdfast.model.worker_identity import Identity, ProcessStatus

_PROC: Final = Path("/proc")
_STATE, _THREADS, _BEGAN = 0, 17, 19
"""Fields of /proc/PID/stat, counted from behind the name."""


class Processes(Protocol):
    """Identifies this process, and looks up others."""

    def here(self) -> Identity | None:
        """The identity of this process; None where the host cannot identify processes."""
        ...

    def look_up(self, pid: int) -> int | ProcessStatus:
        """When the process with this pid began; or that there is none, or that it is unknown."""
        ...


class HostProcesses:
    """Processes by /proc. On a host without it no process has an identity, and no worker is proven dead."""

    def __init__(self, boot: str) -> None:
        self._boot = boot

    def here(self) -> Identity | None:
        try:
            pid_namespace = (_PROC / "self" / "ns" / "pid").stat().st_ino
        except OSError:
            return None
        began = self.look_up(os.getpid())
        return (
            None
            if isinstance(began, ProcessStatus)
            else Identity(self._boot, pid_namespace, os.getpid(), began)
        )

    def look_up(self, pid: int) -> int | ProcessStatus:
        try:
            text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            # A hidden process is not a gone one: only the kernel's own answer to signal 0 counts.
            return _probe_pid(pid)
        except OSError:
            return ProcessStatus.UNKNOWN
        # The name may contain anything, spaces and brackets included; the fields are behind its last bracket.
        fields = text.rpartition(")")[2].split()
        if len(fields) <= _BEGAN:
            return ProcessStatus.UNKNOWN
        # Killed, and its parent has not reaped it yet: it will never run again. (A leader whose threads still run
        # looks the same except for their number.)
        if fields[_STATE] in "ZX" and int(fields[_THREADS]) <= 1:
            return ProcessStatus.GONE
        return int(fields[_BEGAN])

    def is_stopped(self, pid: int) -> bool:
        """Whether the process was stopped by a signal or a debugger, and has not continued since."""
        try:
            text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        fields = text.rpartition(")")[2].split()
        return bool(fields) and fields[_STATE] in "Tt"


def _probe_pid(pid: int) -> ProcessStatus:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ProcessStatus.GONE
    except OSError:
        return ProcessStatus.UNKNOWN
    return ProcessStatus.UNKNOWN
