"""Server processes that never outlive us, and that can be killed as a power cut would.

Three ways a process of ours could be left behind, and what prevents each:

    the owner forgets         every server is a context manager, and `stop` may be called again
    the owner dies            a watchdog: a tiny shell that reads a pipe whose other end only we hold. End of
                              file means we are gone, even by kill -9; it then ends the server and removes its
                              folder
    the server has children   PostgreSQL puts each backend in a process group of its own, so killing the group
                              of the postmaster misses them. `kill_family` freezes the parent first: frozen,
                              it cannot fork, so the list of its children is complete

PR_SET_PDEATHSIG is not used: it fires when the *thread* that started the server ends.
Without /proc (macOS) only the parent is killed; PostgreSQL's backends notice that and end themselves.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from holdfast.errors import HoldfastError
from tests.support.servers.places import Account

POLL_S = 0.01
PATIENCE_S = 60.0  # generous: a continuous-integration machine may be loaded many times over

_PROC = Path("/proc")

# $1 is the signal that makes the server end with its children, $2 the folder. Each line read is the process
# to watch from now on; an empty one means none. The pause only ever happens after our death. A process that
# ended and that nobody collects (Z) still answers to `kill -0`.
_WATCHDOG = """
pid=
while read -r line; do pid=$line; done
runs() { kill -0 "$pid" && ! grep -q "^State:.*Z" "/proc/$pid/status"; }
if [ -n "$pid" ]; then
    kill -s "$1" "$pid"
    tries=0
    while runs && [ "$tries" -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
    kill -s KILL "$pid"
fi
rm -rf -- "$2"
"""


class ServerFailed(HoldfastError):
    """A server did not start, did not end, or was asked for something while it was down."""

    code = "test_server_failed"
    default_hint = (
        "The end of the server's log is in the message; `make setup` repairs a damaged installation."
    )


class Watchdog:
    """While it lives, the folder and the watched process go away when this Python process does."""

    def __init__(self, folder: Path, ending: signal.Signals) -> None:
        # Its own session, so that Ctrl-C at the terminal ends us and leaves it to do its work.
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "holdfast-watchdog", ending.name.removeprefix("SIG"), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._shell.pid

    def watch(self, pid: int | None) -> None:
        """This process ends with us; `None` means there is none now."""
        assert self._shell.stdin is not None, "the watchdog reads a pipe"
        self._shell.stdin.write(b"%d\n" % pid if pid is not None else b"\n")
        self._shell.stdin.flush()

    def dismiss(self) -> None:
        """The watchdog is gone and touched nothing."""
        # Killed, not told by end of file: a forked child of ours may still hold the other end.
        self._shell.kill()
        self._shell.communicate()


def launch(
    command: Sequence[str | Path],
    *,
    home: Path,
    log: Path,
    environment: Mapping[str, str],
    account: Account | None,
) -> subprocess.Popen[bytes]:
    """The command runs in `home` as the account, away from our terminal, and writes to `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )


def kill_family(process: subprocess.Popen[bytes]) -> None:
    """The process and all its children are gone, with no chance to tidy up."""
    if process.poll() is not None:
        return  # its number may be somebody else's by now
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: _stat(process.pid)[0] in "TZX", f"process {process.pid} to freeze")
    family = children(process.pid)
    process.kill()
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    # A restart before they are gone finds their shared memory in use.
    wait_until(lambda: not any(map(alive, family)), f"processes {family} to end")


def end(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    """The process ended as `how` asks, or was killed with its children if it did not in time."""
    process.send_signal(how)
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        kill_family(process)


def children(parent: int) -> tuple[int, ...]:
    """The living children of a process; empty where there is no /proc."""
    if not _PROC.is_dir():
        return ()
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return tuple(pid for pid in pids if _stat(pid)[1] == parent and alive(pid))


def alive(pid: int) -> bool:
    """Whether the process still runs; one that ended and waits to be collected does not."""
    if _PROC.is_dir():
        return _stat(pid)[0] not in "ZX"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(true: Callable[[], bool], what: str, *, patience_s: float = PATIENCE_S) -> None:
    """The condition held at least once; `ServerFailed` if it did not within the time."""
    deadline = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > deadline:
            raise ServerFailed(f"Waited {patience_s:g} s for {what}.")
        time.sleep(POLL_S)


def log_tail(log: Path, lines: int = 20) -> str:
    """The last lines a server wrote, for a message."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(no log)"


def _stat(pid: int) -> tuple[str, int]:
    """State letter and parent; `X` (dead) and 0 for a process that is not there."""
    try:
        # The name in parentheses may hold anything, so count from its end. Everybody may read this file;
        # /proc/*/cwd would be closed to root in an ordinary container if the process is another user's.
        state, parent, *_ = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    return state, int(parent)
