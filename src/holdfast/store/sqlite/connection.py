"""Opening a connection to one of our files, and to no other.

Every setting here is part of a promise: WAL with `synchronous=FULL` so that an acknowledged commit survives a power
cut, no memory mapping so that a bad sector is an error and not a signal, foreign keys on, the schema not trusted. What
cannot be had is refused at open, not discovered later.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from holdfast.errors import ForeignFile, HoldfastError, StoreBusy, StoreReadOnly, TierNotKept
from holdfast.store.sqlite.errors import translate

APPLICATION_ID: Final = 0x484F4C44
"""'HOLD': written into every file we make, asked of every file we open."""

OLDEST_LIBRARY: Final = 3_051_003
"""Older ones can lose acknowledged commits when one process commits while another resets the WAL."""

BUSY_MS: Final = 10_000
SWITCHES_MAX: Final = 100
"""How often a new file is asked to keep a log, each time after everybody who was there has left."""

PAGE_BYTES: Final = 8192
"""Two-kilobyte messages waste half of a 4 KiB page; three of them fill one of these."""

STATEMENTS: Final = 512
"""Prepared ones that are kept. The driver drops what was not among so many last *uses*, however few differ."""

WAL_BYTES_KEPT: Final = 64 * 1024 * 1024


def check_library(version: int | None = None) -> None:
    """The SQLite that is linked is one a ledger may rest on."""
    version = apsw.SQLITE_VERSION_NUMBER if version is None else version
    if version < OLDEST_LIBRARY:
        msg = f"the linked SQLite is {version}, Holdfast needs at least {OLDEST_LIBRARY} (3.51.3)"
        raise TierNotKept(msg, hint="pip install --upgrade apsw (its wheels bundle a current SQLite).")


def connect(path: Path, *, vfs: str | None = None, read_only: bool = False) -> apsw.Connection:
    """A connection with our settings; the file must exist."""
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    try:
        connection = apsw.Connection(str(path), flags=flags, vfs=vfs, statementcachesize=STATEMENTS)
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    try:
        if connection.readonly("main") and not read_only:
            # SQLite opens what it may only read without a word; the first write would find out.
            msg = f"the file {path} cannot be written"
            raise StoreReadOnly(msg)
        connection.set_busy_timeout(BUSY_MS)
        for pragma in (
            "mmap_size = 0",
            "trusted_schema = OFF",
            "cell_size_check = ON",
            "foreign_keys = ON",
            "temp_store = MEMORY",
            "cache_size = -65536",
        ):
            _pragma(connection, pragma)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        # Without it a value that might decide for a partial index has its statement prepared anew each time it is
        # bound: a claim costs thirty times as much. Our statements name the constants of those indexes themselves.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    except HoldfastError:
        connection.close()
        raise
    return connection


def adopt(connection: apsw.Connection, path: Path) -> bool:
    """The file is ours, or has nothing in it and may become ours; True if it is a new one. A file of somebody else is
    refused before anything is changed."""
    try:
        # In this order: a store that another process is making right now gets its mark together with its first table.
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchall()[0][0]
        found = _pragma(connection, "application_id")
        if found == APPLICATION_ID:
            return bool(tables == 0)
        if found != 0 or tables != 0:
            # Closing the last connection would copy its log back and remove it; that is its owner's business.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            msg = f"{path} is the database of another program"
            raise ForeignFile(msg)
        _pragma(connection, f"page_size = {PAGE_BYTES}")
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    return True


def mark(connection: apsw.Connection) -> None:
    """The file says that it is ours, from the end of this transaction on. Without one, before there is anything in the
    file, that would cost four trips to the disk."""
    _pragma(connection, f"application_id = {APPLICATION_ID}")


def make_durable(connection: apsw.Connection, *, relaxed: bool = False) -> None:
    """Commits on this connection survive what the tier says they survive."""
    mode = _to_wal(connection)
    if mode != "wal":
        msg = f"the file cannot be switched to WAL, it stays {mode}"
        raise TierNotKept(msg, hint="Keep the file on a local disk.")
    _pragma(connection, f"synchronous = {'NORMAL' if relaxed else 'FULL'}")
    # On macOS an ordinary fsync leaves the data in the drive's cache; elsewhere this changes nothing.
    _pragma(connection, "fullfsync = ON")
    _pragma(connection, "checkpoint_fullfsync = ON")
    _pragma(connection, f"journal_size_limit = {WAL_BYTES_KEPT}")


def _to_wal(connection: apsw.Connection) -> object:
    """The mode of the file afterwards. For the switch SQLite wants the file for itself, and gives up at once if
    somebody else is about to write, as others are who make the same file in the same moment. So we wait as it waits
    elsewhere, and ask again; once one of us has switched, there is nothing left to do for the others."""
    for _ in range(SWITCHES_MAX):
        try:
            return _pragma(connection, "journal_mode = WAL")
        except StoreBusy:
            _wait_for_all(connection)
    return _pragma(connection, "journal_mode = WAL")


def _wait_for_all(connection: apsw.Connection) -> None:
    """Everybody who was at the file has left it for a moment."""
    try:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("ROLLBACK")
    except apsw.Error as error:
        raise translate(error, connection.filename) from error


def settings(connection: apsw.Connection) -> dict[str, str]:
    """What the database says its settings are: asked, not remembered."""
    names = ("journal_mode", "synchronous", "mmap_size", "foreign_keys", "page_size", "application_id")
    shown = {name: str(_pragma(connection, name)) for name in names}
    return {"library": apsw.sqlite_lib_version(), **shown}


def _pragma(connection: apsw.Connection, text: str) -> object:
    try:
        rows = connection.execute("PRAGMA " + text).fetchall()
    except apsw.Error as error:
        raise translate(error, connection.filename) from error
    return rows[0][0] if rows else None
