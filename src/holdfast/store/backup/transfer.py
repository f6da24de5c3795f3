"""Backup and restore of any SQL store."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from holdfast.errors import Misuse, NotFound
from holdfast.model.ids import IdSource
from holdfast.store.backup import sqlite
from holdfast.store.backup.files import Backup, check, finish, prepare_partial_path
from holdfast.store.backup.stage import RestoreResult, stage
from holdfast.store.clock import Clock
from holdfast.store.contract import Store
from holdfast.store.sqlite.connection import connect
from holdfast.store.sqlite.executor import SqliteExecutor
from holdfast.store.tables.store import SqlStore


async def back_up(store: Store, target: Path, *, clock: Clock, ids: IdSource) -> Backup:
    """Copy the store, as it is at one instant, to the target; writers go on meanwhile.

    The file gets its name only when it is complete, checked and on disk.
    """
    executor = _require_sql_store(store).executor
    partial = prepare_partial_path(target)
    try:
        if isinstance(executor, SqliteExecutor):
            await sqlite.copy_out(executor, partial)
        else:
            from holdfast.store.backup import postgres

            await postgres.copy_out(postgres.server_of(executor), partial, clock=clock, ids=ids)
        return finish(partial, target)
    finally:
        for leftover in partial.parent.glob(partial.name + "*"):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


async def restore(store: Store, backup: Path, *, clock: Clock, ids: IdSource) -> RestoreResult:
    """Replace the content of the store by the backup, in a new epoch: older workers are fenced, unfinished jobs are
    held."""
    if not backup.is_file():
        msg = f"there is no file {backup}"
        raise NotFound(msg, hint="Name a file that `holdfast db backup` made.")
    live = _require_sql_store(store)
    epoch = (await live.info()).epoch
    with tempfile.TemporaryDirectory(prefix="holdfast-restore-") as folder:
        staged = Path(folder) / "staged.db"
        shutil.copyfile(backup, staged)
        staged.chmod(0o600)
        connection = connect(staged)
        try:
            check(connection, backup)
        finally:
            connection.close()
        restored = await stage(staged, live_epoch=epoch, label=backup.name, clock=clock, ids=ids)
        if isinstance(live.executor, SqliteExecutor):
            await sqlite.copy_in(live.executor, staged)
        else:
            from holdfast.store.backup import postgres

            await postgres.copy_in(postgres.server_of(live.executor), staged)
    return restored


def _require_sql_store(store: Store) -> SqlStore:
    if isinstance(store, SqlStore):
        return store
    msg = "a memory store cannot be backed up"
    raise Misuse(msg, hint="Use sqlite:///file.db or postgresql://….")
