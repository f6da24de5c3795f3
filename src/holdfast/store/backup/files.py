"""Backup file: gets its name only when it is complete, checked and on disk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import apsw
import msgspec

from holdfast.errors import ForeignFile, Misuse, NotFound, StoreCorrupt
from holdfast.store.sqlite.connection import APPLICATION_ID, connect
from holdfast.store.sqlite.errors import translate


class Backup(msgspec.Struct, frozen=True):
    """A finished backup."""

    path: str
    bytes: int
    sha256: str
    store_id: str
    epoch: int
    jobs: int


def prepare_partial_path(target: Path) -> Path:
    """The path of the incomplete copy, beside the target so that the last step is a rename."""
    if target.exists():
        msg = f"{target} exists"
        raise Misuse(msg, hint="Name a new file; a backup never overwrites another.")
    if not target.parent.is_dir():
        msg = f"there is no folder {target.parent}"
        raise NotFound(msg, hint=f"Make it first: mkdir -p {target.parent}")
    partial = target.with_name(target.name + ".part")
    partial.unlink(missing_ok=True)
    return partial


def finish(partial: Path, target: Path) -> Backup:
    """Check the copy, flush it to disk and rename it to the target."""
    connection = connect(partial)
    try:
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        check(connection, partial)
        state: list[Any] = connection.execute("SELECT store_id, epoch FROM store_state").fetchall()
        jobs: list[Any] = connection.execute("SELECT count(*) FROM job_heads").fetchall()
    finally:
        connection.close()
    partial.chmod(0o600)
    digest = hashlib.sha256(partial.read_bytes()).hexdigest()
    _flush(partial)
    partial.rename(target)
    _flush(target.parent)
    return Backup(str(target), target.stat().st_size, digest, *state[0], *jobs[0])


def check(connection: apsw.Connection, path: Path) -> None:
    """Raise if the file is not a Holdfast store or is damaged."""
    try:
        mark = connection.execute("PRAGMA application_id").fetchall()[0][0]
        if mark != APPLICATION_ID:
            msg = f"{path} is not a Holdfast backup"
            raise ForeignFile(msg, hint="Name a file that `holdfast db backup` made.")
        found = [row[0] for row in connection.execute("PRAGMA integrity_check(10)").fetchall()]
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    if found != ["ok"]:
        msg = f"{path} is damaged: {found[0]}"
        raise StoreCorrupt(msg, hint="Use another backup.")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
