"""Open a store on a SQLite file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from holdfast.errors import HoldfastError, TierNotKept
from holdfast.model.ids import IdSource
from holdfast.store.clock import Clock
from holdfast.store.contract import Tier
from holdfast.store.sql.dialect import SQLITE
from holdfast.store.sql.migrate import Migration, load_migrations, migrate, require_current
from holdfast.store.sqlite import filesystem
from holdfast.store.sqlite.connection import (
    check_file_is_ours,
    check_library,
    connect,
    make_durable,
    read_settings,
)
from holdfast.store.sqlite.executor import SqliteExecutor
from holdfast.store.sqlite.schema import SqliteSchema
from holdfast.store.sqlite.wakeups import FileWakeups
from holdfast.store.store_clock import HostStoreClock
from holdfast.store.tables.clock import begin_host_clock
from holdfast.store.tables.store import SqlStore, write_first_rows

if TYPE_CHECKING:
    from holdfast.store.encryption import Codec

_FULL = "2"


async def open_sqlite(
    path: Path,
    *,
    clock: Clock,
    ids: IdSource,
    vfs: str | None = None,
    relaxed: bool = False,
    migrating: bool = True,
    migrations: Sequence[Migration] | None = None,
    patience_s: float = 10.0,
    codec: Codec | None = None,
) -> SqlStore:
    """Open the store on this file; create it if it does not exist.

    `migrations` are the package's own, unless a test passes a longer list.

    Raises:
        TierNotKept: an old library, a network filesystem, a file that cannot be switched to WAL.
        ForeignFile: the file is not a Holdfast store. It is left unchanged.
        SchemaMismatch: the store was made by newer code; or by older code, with `migrating` off.
    """
    path = Path(path).absolute()
    check_library()
    filesystem.check_place(path)
    filesystem.make_private(path)
    writer, details = _open_durable(path, vfs=vfs, relaxed=relaxed)
    wakeups = FileWakeups(path, ids.new("wake"))
    store_clock = HostStoreClock(clock)
    try:
        executor = SqliteExecutor(path, writer, store_clock, wakeups, vfs=vfs, patience_s=patience_s)
    except HoldfastError:
        wakeups.close()
        writer.close()
        raise

    async def close() -> None:
        await executor.close()
        wakeups.close()

    try:
        schema = SqliteSchema(writer, executor.write_lock, clock, path)
        await (migrate if migrating else require_current)(schema, migrations or load_migrations(SQLITE))
        await begin_host_clock(executor, store_clock)
        await write_first_rows(executor, ids)
    except BaseException:
        await close()
        raise
    return SqlStore(
        executor,
        ids,
        wakeups,
        clock=store_clock,
        tier=Tier.SQLITE_RELAXED if relaxed else Tier.SQLITE,
        address=f"sqlite:///{path}",
        details=details,
        close=close,
        integrity=executor.check_integrity,
        codec=codec,
    )


def _open_durable(path: Path, *, vfs: str | None, relaxed: bool) -> tuple[apsw.Connection, dict[str, str]]:
    """Open a connection that keeps its tier; returns it with its settings."""
    writer = connect(path, vfs=vfs)
    try:
        check_file_is_ours(writer, path)
        make_durable(writer, relaxed=relaxed)
        details = read_settings(writer)
        _check_tier(details, relaxed=relaxed)
    except HoldfastError:
        writer.close()
        raise
    return writer, details


def _check_tier(details: dict[str, str], *, relaxed: bool) -> None:
    if not relaxed and details["synchronous"] != _FULL:
        msg = f"synchronous is {details['synchronous']}, not FULL"
        raise TierNotKept(msg)
