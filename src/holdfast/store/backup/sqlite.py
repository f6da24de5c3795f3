"""Copying a SQLite store out and in, while others write to it.

Out: SQLite's own backup, in one step, from one read snapshot. Writers go on; the copy is the store at one instant.
In: the same, the other way round, into the open file itself. Replacing the file by another would leave running workers
writing to one that no longer has a name; copying into it lets them see the new epoch and be refused.
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
    """The target holds the store as it was at one instant during this call."""
    await asyncio.get_running_loop().run_in_executor(None, _copy_out, executor.path, target)


def _copy_out(source: Path, target: Path) -> None:
    reader = connect(source)
    try:
        _copy(reader, apsw.Connection(str(target)))
    finally:
        reader.close()


async def copy_in(executor: SqliteExecutor, source: Path) -> None:
    """The store is what the source holds, for everybody who has it open, from one commit to the next."""
    await asyncio.get_running_loop().run_in_executor(None, _copy_in, executor, source)


def _copy_in(executor: SqliteExecutor, source: Path) -> None:
    staged = connect(source)
    with continuing_stopped_writers(executor.path):
        executor.turnstile.enter()
    try:
        _copy(staged, connect(executor.path))
    finally:
        executor.turnstile.leave()
        staged.close()


def _copy(source: apsw.Connection, target: apsw.Connection) -> None:
    """All pages in one step: a kill in the middle leaves the target as it was."""
    try:
        with target.backup("main", source, "main") as copying:
            copying.step(-1)
    except apsw.Error as error:
        raise translate(error, "copying the database") from error
    finally:
        target.close()
