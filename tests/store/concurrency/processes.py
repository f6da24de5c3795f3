"""Child processes that a test can talk to, freeze and kill.

A child is `python -m tests.store.concurrency.children ROLE JSON`; see there for the roles. It says one line of JSON
at a time and is told one line at a time, so that a test always knows how far it has come.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.store.concurrency.stores import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]


class Child:
    """A running process. It never outlives its block."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._heard = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self) -> Any:
        """The next thing the child says; blocks until it does."""
        assert self._process.stdout is not None
        out = self._process.stdout.fileno()
        while b"\n" not in self._heard:
            ready, _, _ = select.select([out], [], [], PATIENCE_S)
            assert ready, f"the child said nothing for {PATIENCE_S:g} s"
            data = os.read(out, 1 << 20)
            assert data, f"the child ended with {self._process.wait()} instead of saying something"
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def tell(self, word: str = "go") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word.encode() + b"\n")
        self._process.stdin.flush()

    def until_stopped(self) -> None:
        """The child has stopped itself."""
        ended = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert ended is not None
        assert ended.si_code == os.CLD_STOPPED, "the child should have stopped, and ended"

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """The child is gone, with no chance to tidy up."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> None:
        """The child has ended by itself, and well."""
        assert self._process.wait(PATIENCE_S) == 0

    def close(self) -> None:
        self.kill()
        for end in (self._process.stdin, self._process.stdout):
            assert end is not None
            end.close()


@contextmanager
def child(role: str, **arguments: Any) -> Iterator[Child]:
    """A child in this role, killed at the end of the block if it is still there."""
    process = Child("tests.store.concurrency.children", role, json.dumps(arguments))
    try:
        yield process
    finally:
        process.close()
