"""The line between a process and the supervisor that started it: a socket, and one thread at the process's end.

Over it the process says that it is ready, and then, every second, that it is alive. The supervisor says nothing; its
end of the line is open as long as it lives. So both learn of the other's death from the kernel, however it came: a
supervisor that was killed leaves no workers behind that nobody asked for, and a process that was frozen falls silent.

A process that is stopped hears nothing: the kernel wakes it when its supervisor dies (`follow_parent`), and its thread
then finds the line cut. It is woken and not killed, because a call that is unsafe to repeat may be under way.

The thread beats for the process and not for its event loop: a loop that is held up is the watchdog's to tell, and is no
reason to kill.
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
    """The kernel sends this signal when the thread that started this process ends; for one that was started over a
    lifeline. Called once, first of all: from then on nothing can be missed, and what was missed before ends the process
    here. Where the kernel has no such call, the line alone tells of the parent's death."""
    parent = os.environ.pop(PARENT, "")
    if not parent or not sys.platform.startswith("linux"):
        return
    import ctypes  # only where it is needed: it costs a command some milliseconds

    ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, int(number), 0, 0, 0)
    if os.getppid() != int(parent):
        os._exit(1)  # the parent died before it could be followed


def ready(said: str = "") -> bool:
    """The supervisor knows that this process is at work, and hears from it until its end; False if there is none."""
    named = os.environ.pop(VARIABLE, "")  # what this process starts is not on the line
    if named:
        line = socket.socket(fileno=int(named))
        line.set_inheritable(False)
        line.settimeout(BEAT_S)
        with contextlib.suppress(OSError):  # the thread finds out as well
            line.sendall(f"{said}\n".encode())
        threading.Thread(target=_beat, args=(line,), name="holdfast-lifeline", daemon=True).start()
    return bool(named)


def _beat(line: socket.socket) -> None:
    try:
        while True:
            try:
                if not line.recv(1):
                    break
            except TimeoutError:
                line.sendall(b"\n")
    except OSError:
        pass  # the other end is gone, which is what the line is for
    os.kill(os.getpid(), signal.SIGTERM)
