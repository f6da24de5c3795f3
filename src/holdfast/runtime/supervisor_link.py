"""Supervisor link: a socket between a process and the supervisor that started it, and one thread in the process.

Over it the process reports that it is ready, and then, every second, that it is alive. The supervisor sends nothing;
its end of the socket is open as long as it lives. So both learn of the other's death from the kernel, whatever the
cause: a supervisor that is killed leaves no workers behind, and a process that is frozen falls silent.

A process that is stopped by a signal notices nothing: the kernel wakes it when its supervisor dies (`follow_parent`),
and its thread then finds the socket closed. It is woken and not killed, because a call that is unsafe to repeat may be
in progress.

The thread beats for the process and not for its event loop: the watchdog reports a blocked loop, which is no reason to
kill the process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from typing import Final

VARIABLE: Final = "HOLDFAST_LIFELINE_FD"
PARENT: Final = "HOLDFAST_LIFELINE_PID"
_SET_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of prctl(2)
BEAT_S: Final = 1.0


def follow_parent(number: signal.Signals = signal.SIGCONT) -> None:
    """Makes the kernel send this signal when the thread that started this process ends; for a process with a
    supervisor link. Called once, first of all: if the parent has died before the call, the process ends here. Where
    the kernel has no such call, the socket alone shows the parent's death."""
    parent = os.environ.pop(PARENT, "")
    if not parent or not sys.platform.startswith("linux"):
        return
    import ctypes  # only where it is needed: it costs a command some milliseconds

    ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, int(number), 0, 0, 0)
    if os.getppid() != int(parent):
        os._exit(1)  # the parent died before this call


def report_ready(message: str = "") -> bool:
    """Tells the supervisor that this process is ready, and beats until its end; False if there is no supervisor."""
    descriptor = os.environ.pop(VARIABLE, "")  # processes that this one starts have no link
    if descriptor:
        line = socket.socket(fileno=int(descriptor))
        line.set_inheritable(False)
        line.settimeout(BEAT_S)
        with contextlib.suppress(OSError):  # the thread notices it as well
            line.sendall(f"{message}\n".encode())
        threading.Thread(target=_beat, args=(line,), name="holdfast-lifeline", daemon=True).start()
    return bool(descriptor)


def _beat(line: socket.socket) -> None:
    try:
        while True:
            try:
                if not line.recv(1):
                    break
            except TimeoutError:
                line.sendall(b"\n")
    except OSError:
        pass  # the supervisor is gone
    os.kill(os.getpid(), signal.SIGTERM)
