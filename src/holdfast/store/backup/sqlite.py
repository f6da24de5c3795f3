"""Copies a SQLite store out and in, while other processes write to it.

Out: SQLite's own backup, in one step, from one read snapshot. Writers go on; the copy is the store at one instant.
In: SQLite's own backup in the other direction, into the open file itself. If another file replaced it, running workers
would go on writing to the old file, which no longer has a name; copied into the file, the new epoch fences them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw

from holdfast.store.sqlite.connection import connect
from holdfast.store.sqlite.errors import translate
from holdfast.store.sqlite.executor import SqliteExecutor
from holdfast.store.sqlite.lock_holders import continuing_stopped_writers


async def copy_out(executor: SqliteExecutor, target: Path) -> None:
    """Copy the store, as it is at one instant during this call, to the target."""
    await asyncio.get_running_loop().run_in_executor(None, _copy_out, executor.path, target)


def _copy_out(source: Path, target: Path) -> None:
    reader = connect(source)
    try:
        _copy(reader, apsw.Connection(str(target)))
    finally:
        reader.close()


async def copy_in(executor: SqliteExecutor, source: Path) -> None:
    """Replace the content of the store by that of the source, in one commit, for all processes that have it open."""
    await asyncio.get_running_loop().run_in_executor(None, _copy_in, executor, source)


def _copy_in(executor: SqliteExecutor, source: Path) -> None:
    staged = connect(source)
    with continuing_stopped_writers(executor.path):
        executor.write_lock.enter()
    try:
        _copy(staged, connect(executor.path))
    finally:
        executor.write_lock.leave()
        staged.close()


def _copy(source: apsw.Connection, target: apsw.Connection) -> None:
    """Copy all pages in one step: a kill in the middle leaves the target unchanged."""
    try:
        with target.backup("main", source, "main") as copying:
            copying.step(-1)
    except apsw.Error as error:
        raise translate(error, "copying the database") from error
    finally:
        target.close()
