"""Somebody at a real terminal: a command behind a pseudo-terminal, keys typed into it, what it shows read back."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE_S = 60.0
CONTROL = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[=>()][0-9A-B]?|\r")


class Terminal:
    """A window of a hundred columns in which one command runs."""

    def __init__(self, folder: Path, *words: str, **environment: str) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        plain = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self._fd = ours
        self.raw = ""
        self._at = 0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words],
            cwd=folder,
            env={**plain, "TERM": "xterm-256color", **environment},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_the_terminal,  # noqa: PLW1509 - nothing else can; it does not allocate
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        os.close(self._fd)

    @property
    def shown(self) -> str:
        """Everything that was shown so far, without what moves and colours it."""
        return CONTROL.sub("", self.raw)

    def see(self, pattern: str) -> re.Match[str]:
        """What is shown next that fits, after what was seen before."""
        until = time.monotonic() + PATIENCE_S
        while True:
            found = re.compile(pattern).search(self.shown, self._at)
            if found is not None:
                self._at = found.end()
                return found
            assert self._read(until - time.monotonic()), f"{pattern!r} was not shown, but:\n{self.shown}"

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def ctrl(self, letter: str) -> None:
        os.write(self._fd, bytes([ord(letter) & 0x1F]))

    def ends(self) -> int:
        """The exit status, everything read."""
        until = time.monotonic() + PATIENCE_S
        while self._read(until - time.monotonic()):
            pass
        return self.process.wait(PATIENCE_S)

    def _read(self, within_s: float) -> bool:
        """Whether something more was shown."""
        readable, _, _ = select.select([self._fd], [], [], max(within_s, 0))
        try:
            data = os.read(self._fd, 1 << 16) if readable else b""
        except OSError:  # the other end was closed
            data = b""
        self.raw += data.decode("utf-8", "replace")
        return bool(data)


def _take_the_terminal() -> None:
    """Ctrl-C is the terminal's to send, to whoever it belongs to."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
