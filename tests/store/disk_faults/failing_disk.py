"""A disk that reports errors: the nth write, read or flush of one database fails as the kernel would make it fail.

    with FaultyCalls(path) as calls:
        store = await open_sqlite(path, …)
        calls.fail("write", after=7, errno=errno.ENOSPC)
        …                                   # the eighth write from now on, and every later one, finds no room
        calls.mend()

`FaultyCalls` sits below SQLite's file layer: it replaces the system calls that layer makes (SQLite lets a test do that)
and answers with an error number or a short count. So what is tested is all of SQLite's own handling: that a short write
is continued, that ENOSPC and EIO are different errors, that a checkpoint which fails after a commit does not fail the
commit.

A flush is not among the replaceable calls, so `FaultyFlush` is a file layer of its own above the default one. What it
raises surfaces in the statement that was running even where SQLite would have gone on without it (a checkpoint), which
makes it a little stricter than a real disk.

Only the files of the one database are touched. The calls are the process's: one `FaultyCalls` at a time.
"""

from __future__ import annotations

import ctypes
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

import apsw
import msgspec

Kind: TypeAlias = Literal["read", "write", "truncate", "open"]

_THE_KERNEL_S_OWN: Final = 0

SIDE_FILES: Final = ("", "-wal", "-journal", "-shm")

_off_t = ctypes.c_int64
_Transfer = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, _off_t, use_errno=True
)
_Truncate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, _off_t, use_errno=True)
_Open = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_int, use_errno=True)

# Our word → what it is called where, and how it is called.
_CALLS: Final[dict[Kind, tuple[tuple[str, ...], Any]]] = {
    "read": (("pread64", "pread"), _Transfer),
    "write": (("pwrite64", "pwrite"), _Transfer),
    "truncate": (("ftruncate",), _Truncate),
    "open": (("open",), _Open),
}


class Fault(msgspec.Struct, frozen=True):
    """Calls of this kind fail once `after` more of them went well.

    `short` lets the first failing write through by half. `times` None means until mended. `files` are the endings of
    the names it is about.
    """

    kind: Kind
    errno: int
    after: int
    times: int | None
    short: bool
    files: tuple[str, ...]


class FaultyCalls:
    """`counts` says how many calls of each kind there have been since the last `fail` or `mend`."""

    def __init__(self, database: Path) -> None:
        self.counts: Counter[Kind] = Counter()
        self.failed = 0
        self._database = database
        self._fault: Fault | None = None
        self._layer: apsw.VFS
        self._replaced: dict[str, Any] = {}

    def fail(
        self,
        kind: Kind,
        errno: int,
        *,
        after: int = 0,
        times: int | None = None,
        short: bool = False,
        files: tuple[str, ...] = SIDE_FILES,
    ) -> None:
        self.mend()
        self._fault = Fault(kind, errno, after, times, short, files)

    def mend(self) -> None:
        """Everything works again."""
        self._fault = None
        self.failed = 0
        self.counts.clear()

    # ── between SQLite and the kernel ─────────────────────────────────────────────────────────────

    def __enter__(self) -> Self:
        self._layer = apsw.VFS(f"faulty-calls-{id(self)}", "")
        for kind, (names, prototype) in _CALLS.items():
            for name in names:
                address = self._layer.xGetSystemCall(name)
                if address:
                    replacement = prototype(self._around(kind, prototype(address)))
                    self._replaced[name] = replacement
                    self._layer.xSetSystemCall(name, ctypes.cast(replacement, ctypes.c_void_p).value or 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._replaced:
            self._layer.xSetSystemCall(name, _THE_KERNEL_S_OWN)
        self._replaced.clear()
        self._layer.unregister()

    def _around(self, kind: Kind, original: Callable[..., int]) -> Callable[..., int]:
        def call(target: int | bytes, *arguments: int) -> int:
            fault = self._fault_for(kind, target)
            if fault is None or (kind == "open" and not arguments[0] & (os.O_WRONLY | os.O_RDWR)):
                return original(target, *arguments)
            self.failed += 1
            if fault.short and self.failed == 1 and arguments[1] > 1:
                buffer, count, offset = arguments
                return original(target, buffer, count // 2, offset)
            ctypes.set_errno(fault.errno)
            return -1

        return call

    def _fault_for(self, kind: Kind, target: int | bytes) -> Fault | None:
        """The fault that this call meets, if it is about our files and its time has come."""
        ending = self._ending(target)
        if ending is None:
            return None
        fault = self._fault
        if fault is None or fault.kind != kind:
            self.counts[kind] += 1
            return None
        if ending not in fault.files:
            return None
        self.counts[kind] += 1
        past = self.counts[kind] - fault.after
        return fault if past > 0 and (fault.times is None or past <= fault.times) else None

    def _ending(self, target: int | bytes) -> str | None:
        """Which of the database's files this is; None for anybody else's."""
        try:
            stat = os.fstat(target) if isinstance(target, int) else None
        except OSError:
            return None
        for ending in SIDE_FILES:
            name = f"{self._database}{ending}"
            if stat is None:
                if target == os.fsencode(name):
                    return ending
            elif _is(name, stat):
                return ending
        return None


def _is(name: str, stat: os.stat_result) -> bool:
    try:
        return os.path.samestat(Path(name).stat(), stat)
    except OSError:
        return False


# ── flushes ───────────────────────────────────────────────────────────────────────────────────────


class FaultyFlush(apsw.VFS):
    """SQLite's default file layer, whose flushes can be told to fail."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self._failing: range | None = None
        super().__init__(name, "")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unregister()

    def fail(self, *, after: int = 0, times: int = 1) -> None:
        """The next flushes after this many fail."""
        self.count = 0
        self._failing = range(after, after + times)

    def mend(self) -> None:
        self.count = 0
        self._failing = None

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's
        return _FaultyFile(self, name, flags)

    def flush(self) -> None:
        """Raises if this one is to fail."""
        number, self.count = self.count, self.count + 1
        if self._failing is not None and number in self._failing:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)


class _FaultyFile(apsw.VFSFile):
    def __init__(self, disk: FaultyFlush, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's
        self._disk.flush()
        super().xSync(flags)
