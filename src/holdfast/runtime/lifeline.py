"""The line between a process and the supervisor that started it: a socket, and one thread at the process's end.

Over it the process says that it is ready, and then, every second, that it is alive. The supervisor says nothing; its
end of the line is open as long as it lives. So both learn of the other's death from the kernel, however it came: a
supervisor that was killed leaves no workers behind that nobody asked for, and a process that was frozen falls silent.

The thread beats for the process and not for its event loop: a loop that is held up is the watchdog's to tell, and is no
reason to kill.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from typing import Final

VARIABLE: Final = "HOLDFAST_LIFELINE_FD"
BEAT_S: Final = 1.0


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
