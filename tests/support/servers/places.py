"""Where a server lives and as whom: a short private folder, and never root.

PostgreSQL refuses to run as root. We create no user and change no folder that is not ours: a root process
starts the server as `nobody`, in a folder given to `nobody`. If `nobody` cannot reach the programs (a virtual
environment under a home of mode 700), they are copied into that folder.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

# A unix socket's path holds 107 bytes on Linux and 103 on macOS; ours adds about 30 to this.
LONGEST_BASE = 64


@dataclass(frozen=True, slots=True)
class Account:
    """Another user to run a server as. `None` in its place means: as ourselves."""

    uid: int
    gid: int


def unprivileged() -> Account | None:
    """`nobody` when we are root, otherwise `None`: we are unprivileged already."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


MEMORY = Path("/dev/shm")  # noqa: S108 - a random name of mode 700 is made in it
MEMORY_NEEDED = 2**30


def new_folder(prefix: str, account: Account | None, *, volatile: bool = False) -> Path:
    """A new empty folder with a short path, mode 700, owned by the account that will use it.

    A `volatile` one is for data that need not outlive anything: it lies in memory where there is room.
    """
    base = Path(tempfile.gettempdir()).resolve()
    if volatile and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED:
        base = MEMORY
    if len(bytes(base)) > LONGEST_BASE or not _passable(base, account):
        base = Path("/tmp")  # noqa: S108 - a random name of mode 700 is made in it
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
    give(folder, account)
    return folder


def give(path: Path, account: Account | None) -> None:
    """The path and all below it belong to the account."""
    if account is not None:
        for each in (path, *path.rglob("*")):
            os.chown(each, account.uid, account.gid, follow_symlinks=False)


def reachable(binaries: Path, account: Account | None, home: Path) -> Path:
    """A folder of the same programs that the account can run: `binaries` itself, or a copy below `home`."""
    if account is None or _runs(binaries / "initdb", account):
        return binaries
    prefix = binaries.parent
    package = prefix.parent
    copies = home / "programs"
    shutil.copytree(
        prefix, copies / package.name / prefix.name, symlinks=True, ignore=shutil.ignore_patterns("include")
    )
    # A repaired wheel keeps its shared libraries beside the package and finds them by relative path.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copies / libraries.name, symlinks=True)
    give(copies, account)
    return copies / package.name / prefix.name / binaries.name


def _passable(folder: Path, account: Account | None) -> bool:
    return account is None or all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def _runs(program: Path, account: Account) -> bool:
    # Trying is the only honest check: it covers every parent folder, the mount, and the shared libraries.
    try:
        done = subprocess.run(
            [program, "--version"],
            user=account.uid,
            group=account.gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            timeout=60,
            check=False,
        )
    except PermissionError:
        return False
    return done.returncode == 0
