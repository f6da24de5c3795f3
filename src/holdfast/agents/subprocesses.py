"""Subprocesses of tools, which never outlive the call.

    @hf.tool(effect="read_only")
    async def count(path: str) -> int:
        done = await hf.run_process(["wc", "-l", path], timeout="10s")
        return int(done.stdout.split()[0])

A program gets its own session and process group. When the call is cancelled or exceeds its timeout, the whole group
gets SIGTERM, and SIGKILL a moment later; when the program ends by itself, all that it left running in its group is
killed. So no process of a call survives it, unless it leaves its group on purpose.

A worker that is killed cannot clean up. Then two mechanisms end its programs:

    the guard    a small shell in each group waits on a pipe whose other end only the worker holds. When the worker
                 dies the pipe closes, and the guard kills the group, including grandchildren. On every POSIX system
    the kernel   on Linux it kills the program itself when the thread that started it dies (PR_SET_PDEATHSIG), also
                 where there is no shell

Without a shell and without Linux, a program outlives a worker that was killed with -9. Windows is not supported.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.agents.secrets import Secret
from holdfast.agents.text_limits import head_and_tail
from holdfast.errors import InvalidSetting, Refused
from holdfast.model.limits import MIB
from holdfast.model.time import Duration, parse_duration

OUTPUT_BYTES_MAX: Final = 1 * MIB
PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME")
"""The variables of this process's environment that a program sees: the usual settings, and no secrets."""

_OURS: Final = "HOLDFAST_"
_SHELL: Final = Path("/bin/sh")
_GUARD: Final = (
    """(trap '' TERM INT HUP; exec >/dev/null 2>&1 </dev/fd/"$0"; read -r _; kill -KILL -$$) & exec "$@" """
)
"""The guard ignores the signals that end the group: it waits for the worker's end, and then kills the group."""

_PR_SET_PDEATHSIG: Final = 1


class Ended(msgspec.Struct, frozen=True):
    """How a program ended, and its output.

    `status` is its exit status, or minus the signal that ended it. Bytes that are not UTF-8 are replaced.
    `timed_out`: it exceeded its timeout and was killed; its output up to then is included.
    """

    status: int
    stdout: str
    stderr: str
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    timed_out: bool = False


async def run_process(
    argv: Sequence[str | os.PathLike[str]],
    *,
    input: str | bytes = b"",  # noqa: A002 - as subprocess calls it
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | Secret] | None = None,
    inherit_env: bool = False,
    timeout: Duration | None = None,
    grace: Duration = "5s",
    output_max: int = OUTPUT_BYTES_MAX,
    output_tail: int = 0,
    memory_max: int | None = None,
) -> Ended:
    """Runs a program to its end; no process of its group is left.

    env: added to the few variables that are passed on; with `inherit_env` all variables are passed on except
    Holdfast's own settings. timeout: then the group gets SIGTERM, and SIGKILL after the grace. output_max: bytes kept
    of stdout and of stderr, each; the rest is read and discarded. output_tail: how many of these are kept for the end
    of the output; a line in the middle then says how much is missing. memory_max: bytes of address space for each
    process of the group. Raises `Refused` if the program cannot be started: it certainly did nothing.
    """
    command = [os.fspath(word) for word in argv]
    environment = _environment(env, inherit_env=inherit_env)
    program = _found(command, environment, cwd)
    limit_s = None if timeout is None else parse_duration(timeout) / 1_000_000
    running = _Running(parse_duration(grace) / 1_000_000, output_max, output_tail)
    await running.start([program, *command[1:]], environment, cwd, memory_max)
    fed = input.encode() if isinstance(input, str) else input
    ending = asyncio.create_task(running.end(fed, limit_s), name="holdfast-process")
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.wait([ending])
        except asyncio.CancelledError as error:
            # A repeated cancellation does not shorten this: first the group must have ended.
            cancelled = error
            running.hurry.set()
    if cancelled is not None:
        ending.exception()
        raise cancelled
    return ending.result()


class _Talk(asyncio.SubprocessProtocol):
    """Collects a program's output up to its limit, and notes its end. The program's end and the end of its output are
    separate: a child that it leaves behind may hold the pipes open."""

    def __init__(self, most: int, tail: int) -> None:
        loop = asyncio.get_running_loop()
        self.ended = loop.create_future()
        self.closed = loop.create_future()
        self.cut = {1: 0, 2: 0}
        self._heads = {1: bytearray(), 2: bytearray()}
        self._tails = {1: bytearray(), 2: bytearray()}
        self._tail = min(tail, most)
        self._most = most - self._tail

    def text(self, fd: int) -> str:
        head, tail = self._heads[fd], self._tails[fd]
        if self.cut[fd] and self._tail:
            return head_and_tail(head, tail, self.cut[fd])
        return (head + tail).decode("utf-8", "replace")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        head, tail = self._heads[fd], self._tails[fd]
        room = max(self._most - len(head), 0)
        head += data[:room]
        tail += data[room:]
        if len(tail) > self._tail:
            self.cut[fd] += len(tail) - self._tail
            del tail[: len(tail) - self._tail]

    def process_exited(self) -> None:
        self.ended.set_result(None)

    def connection_lost(self, _why: Exception | None) -> None:
        self.closed.set_result(None)


class _Running:
    """A program, its group, and the pipe that shows the guard that the worker lives."""

    def __init__(self, grace_s: float, output_max: int, output_tail: int = 0) -> None:
        self.hurry = asyncio.Event()
        self._grace_s = grace_s
        self._talk = _Talk(output_max, output_tail)

    async def start(
        self,
        command: list[str],
        env: dict[str, str],
        cwd: str | os.PathLike[str] | None,
        memory_max: int | None = None,
    ) -> None:
        theirs, self.ours = os.pipe()
        guarded = [str(_SHELL), "-c", _GUARD, str(theirs), *command] if _SHELL.exists() else command
        try:
            self._transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: self._talk,
                *guarded,
                cwd=cwd,
                env=env,
                pass_fds=[theirs],
                start_new_session=True,
                preexec_fn=_before_it_runs(os.getpid(), memory_max),
            )
        except asyncio.CancelledError:
            os.close(self.ours)  # the guard ends what was started
            raise
        except OSError as error:
            os.close(self.ours)
            msg = f"{command[0]} could not be started: {error.strerror or error}"
            raise Refused(
                msg, hint="Nothing was run. Check the program, its folder and its permissions."
            ) from error
        finally:
            os.close(theirs)

    async def end(self, fed: bytes, limit_s: float | None) -> Ended:
        """Waits until the program has ended: by itself, at its timeout, or because the call was cancelled (`hurry`)."""
        talk = self._talk
        self._feed(fed)
        hurried = asyncio.ensure_future(self.hurry.wait())
        try:
            await asyncio.wait([talk.ended, hurried], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            timed_out = not talk.ended.done() and not hurried.done()
            if not talk.ended.done():
                self._signal(signal.SIGTERM)
                await asyncio.wait([talk.ended], timeout=self._grace_s)
        finally:
            # The guard is still in the group, so the group's id cannot belong to another one.
            self._signal(signal.SIGKILL)
            os.close(self.ours)
            hurried.cancel()
        await self.closed()
        status = self._transport.get_returncode()
        assert status is not None, "it has ended"
        return Ended(status, talk.text(1), talk.text(2), talk.cut[1] > 0, talk.cut[2] > 0, timed_out)

    async def closed(self) -> None:
        """Waits until the program has ended and its output is closed; a process that left the group gets the grace to
        close it."""
        await asyncio.wait([self._talk.ended])
        await asyncio.wait([self._talk.closed], timeout=self._grace_s)
        self._transport.close()

    def _feed(self, fed: bytes) -> None:
        pipe: Any = self._transport.get_pipe_transport(0)
        pipe.write(fed)
        pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), number)


def _environment(env: Mapping[str, str | Secret] | None, *, inherit_env: bool) -> dict[str, str]:
    """The program's environment. Holdfast's own settings hold addresses, keys and secrets, and are never passed on."""
    names = [name for name in os.environ if not name.startswith(_OURS)] if inherit_env else PASSED_ON
    # Only values of type Secret are looked up: a text may come from a model.
    added = {
        name: value.reveal() if isinstance(value, Secret) else value for name, value in (env or {}).items()
    }
    return {name: os.environ[name] for name in names if name in os.environ} | added


def _found(command: list[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None) -> str:
    """The program's path; raises Refused if there is none, before anything is started."""
    if not command:
        msg = "the command is empty"
        raise InvalidSetting(msg, hint='Say which: hf.run_process(["git", "status"]).')
    is_named = os.sep not in command[0]
    path = shutil.which(command[0] if is_named else Path(cwd or ".") / command[0], path=env.get("PATH"))
    if path is None:
        msg = f"there is no program {command[0]!r}"
        raise Refused(msg, hint="Nothing was run. Install it, or give its full path.")
    return str(Path(path).absolute())


def _before_it_runs(worker: int, memory_max: int | None) -> Callable[[], None] | None:
    """What a child runs before it executes the program: it sets its memory limit, and asks the kernel to kill it
    together with its worker."""
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    if prctl is None and memory_max is None:
        return None

    def prepare() -> None:
        if memory_max is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory_max, memory_max))
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != worker:
                os._exit(1)  # the worker died before the request

    return prepare
