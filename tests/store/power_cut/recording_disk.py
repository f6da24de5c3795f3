"""A disk that remembers every write, so that one can ask what it would hold had the power failed at any moment.

    with PowerCutDisk("cut") as disk:
        store = await open_sqlite(path, clock=…, ids=…, vfs=disk.name)
        …                                   # after each acknowledgement, note len(disk)
    for cut in cuts(disk.tape, seeds=range(3)):
        cut.write_to(folder)                # reopen what lies there and look

The model of the disk
    An application writes to a cache. What the cache holds reaches the platter in any order, in part, or not at all,
    until a flush (`xSync`) of that file has returned; from then on it is there for good. So at the moment of the cut

        flushed before                      all of it is there
        written or truncated since then     each change by itself: gone, there, or torn
        torn                                sector by sector (512 bytes): the new bytes, the old ones, or noise

    Names are a file too, the folder. A new name, or the disappearance of a removed one, is certain only once the
    folder was flushed; until then the first few changes may have happened and the rest not. (Filesystems order changes
    of a folder among themselves; they do not order them with data.) Nobody asks for that flush by name: SQLite's file
    layer flushes the folder with the first flush of a journal or log that it opened to create, and with a removal that
    asks for it. Opening a rollback journal or a log without that flush would lose it, and so does this disk.

    The shared memory file beside a log is always gone: it is memory.

Why that is fair
    It is what SQLite's own crash tests assume (sqlite.org/atomiccommit.html §2, test6.c): sectors are not written
    atomically, writes are reordered, a file may grow before its content arrives, and a crash leaves garbage in what was
    being written. And it is no worse than that: bytes outside a write stay as they are (POWERSAFE_OVERWRITE, the
    default everywhere; the shim declares it and nothing else, whatever filesystem the test runs on), and a flush that
    returned is believed. A drive that lies about flushes loses data with every database; no program can help.

    A cut while a write is under way needs no case of its own: it is the cut right after it, with that write torn.

What is not modelled
    Bytes that rot later, and a flush that fails: `tests.store.disk_faults.failing_disk` does the second. Cutting at
    reads would repeat the cut at the write before them.

The same tape, position and seed always give the same files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self, TypeAlias

import apsw
import msgspec

SECTOR_BYTES: Final = 512

# ── what happened ─────────────────────────────────────────────────────────────────────────────────


class Write(msgspec.Struct, frozen=True):
    file: int
    offset: int
    data: bytes


class Truncate(msgspec.Struct, frozen=True):
    file: int
    size: int


class Flush(msgspec.Struct, frozen=True):
    """The file is on the platter; with `folder`, so are all names."""

    file: int
    folder: bool


class Make(msgspec.Struct, frozen=True):
    """A name that did not exist now leads to a new, empty file."""

    name: str
    file: int


class Remove(msgspec.Struct, frozen=True):
    name: str
    folder: bool


Change: TypeAlias = Write | Truncate
Step: TypeAlias = Change | Flush | Make | Remove
Tape: TypeAlias = tuple[Step, ...]

# ── recording ─────────────────────────────────────────────────────────────────────────────────────


class PowerCutDisk(apsw.VFS):
    """SQLite's default file layer with a tape beside it.

    Really flushing the working copy would cost time and prove nothing, so it is not done: only the tape counts.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._steps: list[Step] = []
        self._files: dict[str, int] = {}
        self._made = 0
        super().__init__(name, "")

    @property
    def tape(self) -> Tape:
        """Everything so far."""
        return tuple(self._steps)

    def __len__(self) -> int:
        """How many steps there have been: where the tape stands."""
        return len(self._steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nobody can open a file here any more. Close what is open first."""
        self.unregister()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's
        kept = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
        if name is None or not flags[0] & kept:
            return super().xOpen(name, flags)
        file = self._number(Path(name.filename() if isinstance(name, apsw.URIFilename) else name))
        creating = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and not flags[0] & apsw.SQLITE_OPEN_MAIN_DB)
        return _RecordedFile(self._steps, file, name, flags, folder_too=creating)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's
        super().xDelete(filename, syncdir)
        name = Path(filename).name
        if self._files.pop(name, None) is not None:
            self._steps.append(Remove(name, syncdir))

    def _number(self, path: Path) -> int:
        """The file behind a name, from the first time it is opened until it is removed."""
        if path.name not in self._files:
            self._made += 1
            self._files[path.name] = self._made
            self._steps.append(Make(path.name, self._made))
            content = path.read_bytes() if path.exists() else b""
            if content:
                # Here before the tape began, so on the platter already.
                self._steps += [Write(self._made, 0, content), Flush(self._made, folder=True)]
        return self._files[path.name]


class _RecordedFile(apsw.VFSFile):
    def __init__(
        self,
        steps: list[Step],
        file: int,
        name: str | apsw.URIFilename,
        flags: list[int],
        *,
        folder_too: bool,
    ) -> None:
        super().__init__("", name, flags)
        self._steps = steps
        self._file = file
        self._folder_too = folder_too

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's
        super().xWrite(data, offset)
        self._steps.append(Write(self._file, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's
        super().xTruncate(newsize)
        self._steps.append(Truncate(self._file, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's
        self._steps.append(Flush(self._file, self._folder_too))
        self._folder_too = False

    def xDeviceCharacteristics(self) -> int:  # noqa: N802 - SQLite's
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE


# ── cutting ───────────────────────────────────────────────────────────────────────────────────────


class Cut(msgspec.Struct, frozen=True):
    """What lies in the folder after a power cut between step `at - 1` and step `at`."""

    at: int
    seed: int
    files: dict[str, bytes]

    def write_to(self, folder: Path) -> None:
        """The folder holds these files and nothing else. What already is as it should be is not written again."""
        there = {entry.name: entry.stat().st_size for entry in os.scandir(folder) if entry.is_file()}
        for name in there.keys() - self.files.keys():
            (folder / name).unlink()
        for name, content in self.files.items():
            path = folder / name
            if there.get(name) != len(content) or path.read_bytes() != content:
                path.write_bytes(content)


def cuts(tape: Tape, seeds: Sequence[int]) -> Iterator[Cut]:
    """Every cut there is: before the first step, between any two, and after the last; each once per seed."""
    platter = _Platter()
    for at in range(len(tape) + 1):
        if at:
            platter.take(tape[at - 1])
        for seed in seeds:
            yield Cut(at, seed, platter.after_cut(Random(f"{seed}/{at}")))


def cut_at(tape: Tape, at: int, seed: int) -> Cut:
    """One of them, as `cuts` gives it."""
    return Cut(at, seed, _after(tape, at).after_cut(Random(f"{seed}/{at}")))


def killed_at(tape: Tape, at: int) -> Cut:
    """What lies there if the process dies and the power stays: everything, in order."""
    return Cut(at, -1, _after(tape, at).as_written())


def _after(tape: Tape, at: int) -> _Platter:
    platter = _Platter()
    for step in tape[:at]:
        platter.take(step)
    return platter


class _Platter:
    """What is certain, and what is only in the cache."""

    def __init__(self) -> None:
        self._content: dict[int, bytes] = {}
        self._cached: dict[int, list[Change]] = {}
        self._names: dict[str, int] = {}
        self._cached_names: list[Make | Remove] = []

    def take(self, step: Step) -> None:
        match step:
            case Write() | Truncate():
                self._cached[step.file].append(step)
            case Make():
                self._content[step.file] = b""
                self._cached[step.file] = []
                self._cached_names.append(step)
            case Remove():
                self._cached_names.append(step)
                if step.folder:
                    self._flush_names()
            case Flush():
                self._content[step.file] = self._with(step.file, self._cached[step.file])
                self._cached[step.file].clear()
                if step.folder:
                    self._flush_names()

    def _flush_names(self) -> None:
        _rename(self._names, self._cached_names)
        self._cached_names.clear()

    def as_written(self) -> dict[str, bytes]:
        names = dict(self._names)
        _rename(names, self._cached_names)
        return {name: self._with(file, self._cached[file]) for name, file in sorted(names.items())}

    def after_cut(self, chance: Random) -> dict[str, bytes]:
        """One of the many things that may be there. Some disks keep little of their cache, some nearly all."""
        names = dict(self._names)
        _rename(names, self._cached_names[: chance.randint(0, len(self._cached_names))])
        keeps = chance.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        tears = chance.choice((0.0, 0.2, 0.6))
        return {
            name: self._with(file, self._survivors(file, chance, keeps, tears))
            for name, file in sorted(names.items())
        }

    def _survivors(self, file: int, chance: Random, keeps: float, tears: float) -> Iterator[Change]:
        for change in self._cached[file]:
            if isinstance(change, Write) and chance.random() < tears:
                yield from _torn(change, chance, keeps)
            elif chance.random() < keeps:
                yield change

    def _with(self, file: int, changes: Iterable[Change]) -> bytes:
        arrived = list(changes)
        if not arrived:
            return self._content[file]
        content = bytearray(self._content[file])
        for change in arrived:
            _apply(change, content)
        return bytes(content)


def _rename(names: dict[str, int], steps: Sequence[Make | Remove]) -> None:
    for step in steps:
        if isinstance(step, Make):
            names[step.name] = step.file
        else:
            names.pop(step.name, None)


def _apply(change: Change, content: bytearray) -> None:
    if isinstance(change, Truncate):
        missing = change.size - len(content)
        content += bytes(max(0, missing))
        del content[change.size :]
        return
    content += bytes(max(0, change.offset - len(content)))
    content[change.offset : change.offset + len(change.data)] = change.data


def _torn(write: Write, chance: Random, keeps: float) -> Iterator[Write]:
    """What arrives of a write that was under way: some of its sectors, and noise in place of a few others."""
    end = write.offset + len(write.data)
    start = write.offset
    while start < end:
        stop = min(end, start - start % SECTOR_BYTES + SECTOR_BYTES)
        arrived = chance.random()
        if arrived < 0.1:
            yield Write(write.file, start, chance.randbytes(stop - start))
        elif arrived < 0.1 + 0.9 * keeps:
            yield Write(write.file, start, write.data[start - write.offset : stop - write.offset])
        start = stop
