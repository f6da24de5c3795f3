"""File placement: a database file lies on a local filesystem and is private to its owner."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from holdfast.errors import HoldfastError, StoreFull, StoreReadOnly, StoreUnavailable, TierNotKept

_MOUNTS = Path("/proc/self/mountinfo")

NETWORK: Final = frozenset(
    """nfs nfs4 cifs smb3 smbfs 9p afs ceph glusterfs lustre ncpfs ocfs2 gfs2 beegfs
    fuse.sshfs fuse.glusterfs fuse.ceph fuse.s3fs fuse.gcsfuse fuse.rclone fuse.davfs virtiofs""".split()
)
"""Filesystems on which file locks or shared memory do not work between hosts; a WAL database there is lost sooner or
later."""


def check_place(path: Path, mounts: str | None = None) -> None:
    """Raise if the folder does not exist, cannot be written, or is not on a local filesystem."""
    folder = path.parent
    if not folder.is_dir():
        msg = f"there is no folder {folder}"
        raise StoreReadOnly(msg, hint=f"Make it first: mkdir -p {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        msg = f"the folder {folder} cannot be written"
        raise StoreReadOnly(msg)
    kind = filesystem_of(folder.resolve(), _read_mounts() if mounts is None else mounts)
    if kind in NETWORK:
        msg = f"{path} lies on {kind}, a network filesystem"
        raise TierNotKept(msg, hint="Use a local disk for the file, or Postgres for several machines.")


def filesystem_of(folder: Path, mounts: str) -> str | None:
    """The type of the filesystem of a folder: that of the longest mount point above it, the last one mounted there."""
    longest, kind = -1, None
    for line in mounts.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split()
        if not separator or len(fields) < 5:
            continue
        point = fields[4].replace("\\040", " ")
        if folder.is_relative_to(point) and len(point) >= longest:
            longest, kind = len(point), right.split()[0]
    return kind


def _read_mounts() -> str:
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise make_open_error(_MOUNTS, error) from error


def make_private(path: Path) -> None:
    """Create the file, readable by its owner alone, unless it exists; SQLite gives its side files the same rights."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise make_open_error(path, error) from error


def make_open_error(path: Path, error: OSError) -> HoldfastError:
    """Translate an error of opening or creating a file into one of ours."""
    msg = f"the file {path} cannot be opened: {error.strerror}"
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return StoreFull(msg)
        case errno.EMFILE | errno.ENFILE:
            return StoreUnavailable(msg, hint="Close files, or allow the process more of them (ulimit -n).")
        case _:
            return StoreReadOnly(msg)
