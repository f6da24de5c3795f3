"""Programs that a tool runs, and that do not outlive it.

    @hf.tool(effect="read_only")
    async def count(path: str) -> int:
        done = await hf.run_process(["wc", "-l", path], timeout="10s")
        return int(done.stdout.split()[0])

A program gets a session and a process group of its own. When the call is cancelled or takes too long, the whole group
is asked to end (SIGTERM), and killed a moment later; when the program ends by itself, whatever it left running in its
group is killed. So nothing of a call goes on behind its back, unless it leaves its group on purpose.

A worker that is killed cannot clean up. Then two things end its programs:

    the guard    a small shell in each group waits on a pipe whose other end only the worker holds. When the worker is
                 gone the pipe closes, and the guard kills the group, grandchildren included. On every POSIX system
    the kernel   on Linux it kills the program itself when the thread that started it dies (PR_SET_PDEATHSIG), also
                 where there is no shell

Without a shell and without Linux, a program outlives a worker that was killed with -9. There is no Windows here.
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
"""What a program sees of this process's environment: what it needs to find its way, and no secrets."""

_OURS: Final = "HOLDFAST_"
_SHELL: Final = Path("/bin/sh")
_GUARD: Final = (
    """(trap '' TERM INT HUP; exec >/dev/null 2>&1 </dev/fd/"$0"; read -r _; kill -KILL -$$) & exec "$@" """
)
"""Deaf to what asks the group to end: it waits for the worker, and the last thing it does is to kill the group."""

_PR_SET_PDEATHSIG: Final = 1


class Ended(msgspec.Struct, frozen=True):
    """How a program ended, and what it printed.

    `status` is its exit status; minus the signal, if a signal ended it. Text that is not UTF-8 is shown as far as it
    is. `timed_out`: it took too long and was killed; what it had printed is there.
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
    """The program has ended, and nothing of its group is left.

    env: added to the few variables that are passed on; with `inherit_env` everything is passed on but Holdfast's own
    settings. timeout: then the
    group gets SIGTERM, and SIGKILL after the grace. output_max: bytes kept of stdout and of stderr, each; the rest is
    read and thrown away. output_tail: how many of these are kept for the end of what is printed; a line in the middle
    then says how much is missing. memory_max: bytes of address space for each process of the group. A program that
    cannot be started is `Refused`: it certainly did nothing.
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
            # Said again and again, it ends no sooner: first the group is gone.
            cancelled = error
            running.hurry.set()
    if cancelled is not None:
        ending.exception()
        raise cancelled
    return ending.result()


class _Talk(asyncio.SubprocessProtocol):
    """What a program prints, as far as it is kept, and whether it has ended. Its end is one thing and that of its
    output another: a child that it leaves behind may hold the pipes open."""

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
    """A program, its group, and the pipe that says that we are here."""

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
            os.close(self.ours)  # whatever had begun, the guard ends it
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
        """It has ended by itself, or in the time it was given, or because somebody was in a hurry."""
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
            # The guard is still of the group, so its number is nobody else's.
            self._signal(signal.SIGKILL)
            os.close(self.ours)
            hurried.cancel()
        await self.closed()
        status = self._transport.get_returncode()
        assert status is not None, "it has ended"
        return Ended(status, talk.text(1), talk.text(2), talk.cut[1] > 0, talk.cut[2] > 0, timed_out)

    async def closed(self) -> None:
        """The program has ended, and nobody prints any more; or who left its group has had time to."""
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
    """What the program sees. Our own settings hold addresses, keys and secrets, and are nobody's but ours."""
    names = [name for name in os.environ if not name.startswith(_OURS)] if inherit_env else PASSED_ON
    # Only what is a secret by its type is looked up: a text may be a model's.
    added = {name: one.reveal() if isinstance(one, Secret) else one for name, one in (env or {}).items()}
    return {name: os.environ[name] for name in names if name in os.environ} | added


def _found(command: list[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None) -> str:
    """The program's own path; or Refused, before anything is started."""
    if not command:
        msg = "the command is empty"
        raise InvalidSetting(msg, hint='Say which: hf.run_process(["git", "status"]).')
    is_named = os.sep not in command[0]
    found = shutil.which(command[0] if is_named else Path(cwd or ".") / command[0], path=env.get("PATH"))
    if found is None:
        msg = f"there is no program {command[0]!r}"
        raise Refused(msg, hint="Nothing was run. Install it, or give its full path.")
    return str(Path(found).absolute())


def _before_it_runs(worker: int, memory_max: int | None) -> Callable[[], None] | None:
    """What a child does before it becomes the program: it takes on its limit, and asks the kernel to be killed with its
    worker."""
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    if prctl is None and memory_max is None:
        return None

    def prepare() -> None:
        if memory_max is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory_max, memory_max))
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != worker:
                os._exit(1)  # it died before we could ask

    return prepare
