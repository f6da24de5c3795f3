"""A disk that can be full or read-only: pretended at the border to the kernel, and real where one may be mounted."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Protocol

from tests.store.disk_faults.failing_disk import FaultyCalls


class Disk(Protocol):
    """`path` is where a database on it would be; `open` before use, `close` after."""

    path: Path

    def open(self) -> None: ...

    def close(self) -> None: ...

    def fill(self) -> None:
        """Not one more block can be had."""
        ...

    def lock(self) -> None:
        """Nothing can be opened for writing."""
        ...

    def mend(self) -> None:
        """Room is made, and writing allowed."""
        ...


class PretendedDisk:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "store.db"
        self._calls = FaultyCalls(self.path)

    def open(self) -> None:
        self._calls.__enter__()

    def close(self) -> None:
        self._calls.__exit__(None, None, None)

    def fill(self) -> None:
        self._calls.fail("write", errno.ENOSPC)

    def lock(self) -> None:
        self._calls.fail("open", errno.EROFS)

    def mend(self) -> None:
        self._calls.mend()


class MountedDisk:
    """A filesystem of four megabytes, and a ballast file that takes what the database leaves."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "store.db"
        self._folder = folder
        self._ballast = folder / "ballast"

    def open(self) -> None:
        _run("mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "holdfast-test", str(self._folder))

    def close(self) -> None:
        _run("umount", str(self._folder))

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as ballast:
            try:
                while ballast.write(bytes(4096)):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017 - any other error is one of the test

    def lock(self) -> None:
        _run("mount", "-o", "remount,ro", str(self._folder))

    def mend(self) -> None:
        _run("mount", "-o", "remount,rw", str(self._folder))
        self._ballast.unlink(missing_ok=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=30)


def _can_mount() -> bool:
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        disk = MountedDisk(Path(folder))
        try:
            disk.open()
        except (OSError, subprocess.SubprocessError):
            return False
        disk.close()
    return True


DISKS: dict[str, type[PretendedDisk | MountedDisk]] = {"pretended": PretendedDisk}
if _can_mount():
    DISKS["mounted"] = MountedDisk
