"""File tools: access to the files below a root, and to no others.

A path is walked from the root, name by name, each opened inside the folder before it and never through a symbolic
link (`openat` with `O_NOFOLLOW`). So no path leads out by `..`, by an absolute path or by a link, also not by a link
that appears between a check and an open. The price: links inside the root are not followed either.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.agents.signatures import Key
from holdfast.agents.toolbox import tool_factory
from holdfast.agents.tools import Tool
from holdfast.errors import InvalidSetting, Refused
from holdfast.model.limits import KIB

READ_BYTES_MAX: Final = 128 * KIB
"""As JSON a byte may take six, and a result has to fit into a journal."""

WRITE_BYTES_MAX: Final = 512 * KIB
ENTRIES_MAX: Final = 1_000

_NO_KEY: Final = Key("")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a folder. `kind` is `file`, `folder`, or `other` for links, devices and the like."""

    name: str
    kind: str
    bytes: int = 0


def file_tools(
    root: str | PathLike[str],
    *,
    prefix: str = "",
    writing: bool = True,
    read_max: int = READ_BYTES_MAX,
    write_max: int = WRITE_BYTES_MAX,
) -> list[Tool[..., Any]]:
    """Tools for the files below the folder `root`: read_file and list_files, and write_file unless `writing=False`.

    read_max: the most bytes that one call returns; the result says where to continue. write_max: the most bytes of
    one file. Writing is `idempotent`: writing the same text again changes nothing. (A repeated write does overwrite a
    change that another writer made in between.)
    """
    files = _Files(Path(root).resolve(), read_max, write_max)
    if not files.root.is_dir():
        msg = f"the folder {str(root)!r} of the files does not exist"
        raise InvalidSetting(msg, hint="Make the folder first, or name another one.")
    reading = tool_factory.terms("read_only", timeout="1m")
    tools = [
        tool_factory.tool(files.read_file, f"{prefix}read_file", reading),
        tool_factory.tool(files.list_files, f"{prefix}list_files", reading),
    ]
    if writing:
        safe = tool_factory.terms("idempotent", timeout="1m")
        tools.append(tool_factory.tool(files.write_file, f"{prefix}write_file", safe))
    return tools


class _Files:
    """The functions behind the tools. They block: a tool runs them in a thread."""

    def __init__(self, root: Path, read_max: int, write_max: int) -> None:
        self.root = root
        self._read_max = read_max
        self._write_max = write_max

    def read_file(self, path: str, start: int = 0) -> str:
        """Read a text file.

        Args:
            path: The file, relative to the root folder.
            start: The byte to begin with; for the rest of a long file.
        """
        with self._opened(path) as (folder, name), _refusing(path):
            # Does not wait for the writer of a pipe.
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(handle, "rb") as file:
                info = os.fstat(handle)
                if not stat.S_ISREG(info.st_mode):
                    raise _refused(path, "is no file")
                file.seek(max(start, 0))
                data = file.read(self._read_max)
        text = data.decode("utf-8", "replace")
        end = max(start, 0) + len(data)
        if end >= info.st_size:
            return text
        return f"{text}\n[… {info.st_size - end:,} bytes left; read on with start={end} …]"

    def list_files(self, path: str = ".") -> list[FileEntry]:
        """List what is in a folder.

        Args:
            path: The folder, relative to the root folder.
        """
        with self._folder(_parts(path), path) as folder, _refusing(path):
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries)
            listed = [_entry(name, folder) for name in names[:ENTRIES_MAX]]
        if len(names) > ENTRIES_MAX:
            listed.append(FileEntry(f"[… {len(names) - ENTRIES_MAX:,} more …]", "other"))
        return listed

    def write_file(self, path: str, text: str, *, key: Key = _NO_KEY) -> int:
        """Write a text file, whole, in place of what was there. Folders on the way are made.

        Args:
            path: The file, relative to the root folder.
            text: All of its new content.
        """
        data = _bytes(path, text)
        if len(data) > self._write_max:
            raise _refused(
                path, f"would have {len(data):,} bytes, more than the limit of {self._write_max:,}"
            )
        # Named by the call, so that a repeated call finds and replaces its leftover file.
        beside = f".holdfast-{key[:32] or threading.get_ident()}"
        with self._opened(path, make=True) as (folder, name):
            with _refusing(path):
                _replace(beside, name, folder, data)
            os.fsync(
                folder
            )  # the file is already replaced: an error here must not count as "nothing was done"
        return len(data)

    @contextlib.contextmanager
    def _opened(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The open folder of the file, and the file's name in it."""
        parts = _parts(path)
        if not parts:
            raise _refused(path, "is a folder")
        with self._folder(parts[:-1], path, make=make) as folder:
            yield folder, parts[-1]

    @contextlib.contextmanager
    def _folder(self, parts: list[str], path: str, *, make: bool = False) -> Iterator[int]:
        with contextlib.ExitStack() as opened:
            folder = _open_folder(str(self.root), None, path, opened)
            for part in parts:
                if make:
                    with _refusing(path), contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                folder = _open_folder(part, folder, path, opened)
            yield folder


def _open_folder(name: str, inside: int | None, path: str, opened: contextlib.ExitStack) -> int:
    with _refusing(path):
        handle = os.open(name, _FOLDER, dir_fd=inside)
    opened.callback(os.close, handle)
    return handle


def _parts(path: str) -> list[str]:
    """The path's names from the root; raises Refused if it leads out of the root, or is invalid."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise _refused(path, "contains an incomplete character (a lone surrogate)") from None
    if "\0" in path:
        raise _refused(path, "holds a NUL character")
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if path.startswith("/") or ".." in parts:
        raise _refused(path, "is not below the root")
    return parts


def _bytes(path: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _refused(path, "cannot keep half of a character") from None


def _replace(beside: str, name: str, folder: int, data: bytes) -> None:
    """Replaces the file's content atomically: on an error the file keeps its former content."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(beside, flags, _mode(name, folder), dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise


def _mode(name: str, folder: int) -> int:
    """The permissions of the replaced file, or the default."""
    with contextlib.suppress(OSError):
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(info.st_mode):
            return info.st_mode & 0o777
    return 0o644


def _entry(name: str, folder: int) -> FileEntry:
    text = name.encode("utf-8", "replace").decode()
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return FileEntry(text, "other")  # removed since the listing
    if stat.S_ISREG(info.st_mode):
        return FileEntry(text, "file", info.st_size)
    return FileEntry(text, "folder" if stat.S_ISDIR(info.st_mode) else "other")


@contextlib.contextmanager
def _refusing(path: str) -> Iterator[None]:
    """Converts an OSError to Refused: the system did not do it, and the agent may try something else."""
    try:
        yield
    except OSError as error:
        is_link = error.errno in {errno.ELOOP, errno.EMLINK}
        raise _refused(path, "is a link" if is_link else (error.strerror or str(error)).lower()) from None


def _refused(path: str, why: str) -> Refused:
    return Refused(f"{path[:200]!r}: {why}", hint="Give a path below the root; list_files lists them.")
