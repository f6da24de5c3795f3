"""Audit hook: reports what job code does to the outside world without a tool.

A socket that an agent's own code connects, a process that it starts and a file that it writes leave no record:
whenever the job is resumed, they are done again. Python reports such actions (`sys.addaudithook`), and the mark in the
context tells whose code runs. So a worker reports the place, with the file and line of the author's code and the
remedy.

    the code of a job                     reported, once for each place; or refused, if so configured
    inside a tool, step or wrapped client not reported: that is what they are for
    an import, logging, our own code      exempt: none of it changes what the job does

It is best effort. C code that opens sockets by itself (libpq, gRPC) raises no such event, a connection that a tool has
opened and job code uses later is not seen, and neither is a datagram. uvloop connects and starts processes in C, so
the methods for that are replaced on the loop.

A hook cannot be removed, and is called for every event of the process. So only workers and test helpers install it,
and other events cost one lookup in a set.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import thread as thread_pool
from types import CodeType, FrameType
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from holdfast.engine import ready_queue
from holdfast.engine.replay_scheduler import JOB, ReplayScheduler
from holdfast.engine.stall_detector import walk_await_chain
from holdfast.engine.tracebacks import is_our_file
from holdfast.errors import InvalidMove
from holdfast.model.redaction import redact
from holdfast.model.stall_report import is_installed, is_library

OnUndurable: TypeAlias = Literal["ignore", "warn", "error"]
"""Setting: what happens when job code does something to the outside world without a tool."""

_CONNECT: Final = "socket.connect"
_PROCESS: Final = "subprocess.Popen"
_OPEN: Final = "open"
_FORKS: Final = frozenset({"os.system", "os.posix_spawn", "os.fork", "os.forkpty"})
_DATABASE: Final = "sqlite3.connect"
_EVENTS: Final = frozenset({_CONNECT, _PROCESS, _OPEN, _DATABASE}) | _FORKS

_WRITES: Final = os.O_WRONLY | os.O_RDWR
_DEVICES: Final = ("/dev/", "/proc/")
_CACHE: Final = "__pycache__"
_EXEMPT_MODULES: Final = frozenset({"logging", "importlib", "zipimport", "platform", "distro", "uuid"})
"""Modules whose I/O is not reported, whatever code calls them: imports, log files, and lookups of the
machine's name."""

_LOOP_BOUNDARIES: Final[frozenset[CodeType]] = frozenset(
    function.__code__
    for function in (
        asyncio.Handle._run,  # noqa: SLF001 - the frame below every callback and task
        asyncio.Runner.run,  # uvloop's callbacks have no Python frame
        asyncio.BaseEventLoop.run_forever,
        asyncio.BaseEventLoop.run_until_complete,
        threading.Thread.run,
        thread_pool._WorkItem.run,  # noqa: SLF001 - the same in a thread
    )
)
"""Frames at which the part of a stack that belongs to the job ends."""

_ENTRIES: Final = ("holdfast/agents/agents.py", "holdfast/agents/sessions.py")
"""Files of Holdfast whose frames call an author's function."""

_PLACES_MAX: Final = 1000
_DETAIL_MAX: Final = 200

log = logging.getLogger("holdfast.undurable")


class WatchedRun(Protocol):
    """The run whose code acted, as the monitor sees it."""

    @property
    def owner(self) -> Any: ...

    @property
    def tasks(self) -> set[asyncio.Task[Any]]: ...

    @property
    def io_monitor(self) -> IoMonitor | None: ...

    def fail(self, error: Exception) -> None: ...


class SourceLine(NamedTuple):
    """A line of code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return redact(f"{self.file}:{self.line} in {self.function}")


class IoMonitor:
    """Handles undurable I/O for the runs of one process: reports each place once, or refuses each action."""

    def __init__(self, on_undurable: OnUndurable) -> None:
        self._refuses = on_undurable == "error"
        self._places: set[tuple[str, SourceLine]] = set()

    def check_action(
        self, scheduler: ReplayScheduler, run: WatchedRun, event: str, args: tuple[Any, ...]
    ) -> None:
        """Called when job code is about to do this. Raises, if it is refused."""
        action = _describe(event, args)
        if action is None:
            return
        place = _find_place(sys._getframe(1), run)  # noqa: SLF001 - the documented way to a stack
        if place is None:
            return
        if self._refuses:
            raise self._refuse(scheduler, run, event, f"{action}, at {place}")
        if (event, place) not in self._places:
            if len(self._places) < _PLACES_MAX:
                self._places.add((event, place))
            log.warning(
                "job %s %s from the agent's own code, at %s. That is not recorded, and is done again whenever the job"
                " is resumed. %s",
                run.owner.job_id,
                action,
                place,
                _suggest_remedy(event),
            )

    def watch_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wraps the methods of a loop that connects and starts processes in C: such a loop raises no audit events for
        them."""
        ours: Any = loop
        if hasattr(loop, ready_queue.NAME) or isinstance(ours.create_connection, _LoopCall):
            return
        ours.create_connection = _LoopCall(loop.create_connection, _CONNECT, _connection_address)
        ours.create_unix_connection = _LoopCall(loop.create_unix_connection, _CONNECT, _unix_address)
        ours.subprocess_exec = _LoopCall(loop.subprocess_exec, _PROCESS, _program)
        ours.subprocess_shell = _LoopCall(loop.subprocess_shell, _PROCESS, _program)

    def _refuse(self, scheduler: ReplayScheduler, run: WatchedRun, event: str, action: str) -> InvalidMove:
        """Makes the error that job code gets, and ends its run: code that catches the error must not continue without
        the action."""
        error = InvalidMove(
            f"the agent's own code {action}: that is not recorded, and would be done again whenever the job is resumed",
            hint=_suggest_remedy(event),
        )
        if asyncio._get_running_loop() is scheduler.loop:  # noqa: SLF001 - without an error where there is none
            run.fail(error)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and the run over
                scheduler.loop.call_soon_threadsafe(run.fail, error)
        return error


def make_io_monitor(on_undurable: OnUndurable) -> IoMonitor | None:
    """The monitor for this setting, with its hook installed; None for `ignore`."""
    if on_undurable == "ignore":
        return None
    _install()
    return IoMonitor(on_undurable)


# ── the hook ──────────────────────────────────────────────────────────────────────────────────────

_installed: list[bool] = []


def _install() -> None:
    """Installs the hook, until the process ends."""
    if not _installed:
        _installed.append(True)
        sys.addaudithook(_hook)


def _hook(
    event: str,
    args: tuple[Any, ...],
    _events: frozenset[str] = _EVENTS,
    _get_job: Callable[[], Any] = JOB.get,
    _job_code: Any = ReplayScheduler,
) -> None:
    # Names bound as defaults are faster, and still exist while the interpreter shuts down.
    if event in _events:
        scheduler = _get_job()
        if type(scheduler) is _job_code:
            _check_event(scheduler, event, args)


def _check_event(scheduler: ReplayScheduler, event: str, args: tuple[Any, ...]) -> None:
    run: WatchedRun | None = scheduler.run
    monitor = None if run is None else run.io_monitor
    if run is None or monitor is None or (event == _OPEN and not _is_write(args)):
        return
    # In an empty context: what the report does (a log file is opened) is not the job's action.
    try:
        contextvars.Context().run(monitor.check_action, scheduler, run, event, args)
    except InvalidMove:
        raise
    except Exception:  # a failed report must not break the code
        log.debug("cannot tell where %s comes from", event, exc_info=True)


def _is_write(args: tuple[Any, ...]) -> bool:
    path, flags = args[0], args[2]
    if not isinstance(flags, int) or not flags & _WRITES or not isinstance(path, str | bytes | os.PathLike):
        return False  # it reads, or wraps an open descriptor
    name = os.fsdecode(path)
    return _CACHE not in name and not name.startswith(_DEVICES)


class _LoopCall:
    """A method of the loop that raises the audit event which a Python implementation would raise."""

    def __init__(self, before: Callable[..., Any], event: str, describe: Callable[..., Any]) -> None:
        self._before = before
        self._event = event
        self._describe = describe

    def __call__(self, *args: Any, **options: Any) -> Any:
        arguments = self._describe(*args, **options)
        if arguments is not None:
            _hook(self._event, arguments)
        return self._before(*args, **options)


def _connection_address(
    _protocol: Any, host: Any = None, port: Any = None, *, sock: Any = None, **_options: Any
) -> tuple[Any, ...] | None:
    return None if sock is not None else (None, (host, port))


def _unix_address(
    _protocol: Any, path: Any = None, *, sock: Any = None, **_options: Any
) -> tuple[Any, ...] | None:
    return None if sock is not None else (None, path)


def _program(_protocol: Any, program: Any, *_args: Any, **_options: Any) -> tuple[Any, ...]:
    return (program, None, None, None)


# ── the action, and its place ─────────────────────────────────────────────────────────────────────


def _describe(event: str, args: tuple[Any, ...]) -> str | None:
    """Describes the action in words; None, if it does not concern the outside world."""
    if event == _CONNECT:
        return f"connects to {_shorten(_format_address(args[1]))}"
    if event == _OPEN:
        return f"opens {_shorten(os.fsdecode(args[0]))} for writing"
    if event == _DATABASE:
        database = os.fsdecode(args[0]) if isinstance(args[0], str | bytes | os.PathLike) else ""
        return None if database in {"", ":memory:"} else f"opens the database {_shorten(database)}"
    if event == _PROCESS or event in {"os.system", "os.posix_spawn"}:
        return f"starts the process {_shorten(_format_program(args[0]))}"
    return "forks a process"


def _format_address(address: Any) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{address[0]}:{address[1]}"
    return os.fsdecode(address) if isinstance(address, str | bytes | os.PathLike) else str(address)


def _format_program(program: Any) -> str:
    """The name of a program. Its arguments are left out: they may contain secrets."""
    text = os.fsdecode(program) if isinstance(program, str | bytes | os.PathLike) else str(program)
    return text.split(maxsplit=1)[0] if text.strip() else text


def _shorten(text: str) -> str:
    return redact(text)[:_DETAIL_MAX]


def _suggest_remedy(event: str) -> str:
    tool = "Put it in a tool: @hf.tool(effect=…)"
    return f"{tool}, or wrap the model client: hf.wrap(client)." if event == _CONNECT else f"{tool}."


def _find_place(innermost: FrameType, run: WatchedRun) -> SourceLine | None:
    """The author's line that caused the action; None, if an import, logging or our own code caused it."""
    installed: FrameType | None = None
    for frame in _walk_frames(innermost):
        code = frame.f_code
        if code in _LOOP_BOUNDARIES:
            break
        file = code.co_filename
        if file == __file__:
            continue
        if is_our_file(file):
            if not file.endswith(_ENTRIES):
                return None
            break
        module = str(frame.f_globals.get("__name__", ""))
        if file.startswith("<frozen importlib") or module.partition(".")[0] in _EXEMPT_MODULES:
            return None
        if not is_library(file):
            return _place_of(frame)
        if is_installed(file):
            installed = frame
    # A library started this task: the author's code waits in another one.
    waiting = _find_waiting_author(run)
    if waiting is not None:
        return _place_of(waiting)
    return None if installed is None else _place_of(installed)


def _walk_frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _place_of(frame: FrameType) -> SourceLine:
    return SourceLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)


def _find_waiting_author(run: WatchedRun) -> FrameType | None:
    """The author's innermost frame of a task that waits in a library."""
    for task in list(run.tasks):
        authored: FrameType | None = None
        for frame in walk_await_chain(task.get_coro()):
            file = frame.f_code.co_filename
            if is_our_file(file):
                authored = None if authored is None or not file.endswith(_ENTRIES) else authored
            elif not is_library(file):
                authored = frame
        if authored is not None:
            return authored
    return None
