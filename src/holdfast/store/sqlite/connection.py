"""SQLite connections: open a database file of Holdfast with the settings that its durability tier needs.

Every setting is part of a guarantee: WAL with `synchronous=FULL` so that an acknowledged commit survives a power
cut, no memory mapping so that a bad sector is an error and not a signal, foreign keys on, the schema not trusted.
Opening fails if the durability settings do not take effect.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from holdfast.errors import ForeignFile, HoldfastError, StoreBusy, StoreReadOnly, TierNotKept
from holdfast.store.sqlite.errors import translate

APPLICATION_ID: Final = 0x484F4C44
"""'HOLD': written into every file that Holdfast creates, checked in every file that it opens."""

OLDEST_LIBRARY: Final = 3_051_003
"""Older versions can lose acknowledged commits when one process commits while another resets the WAL."""

BUSY_MS: Final = 10_000
SWITCHES_MAX: Final = 100
"""Attempts to switch a new file to WAL; before each further one, the other connections have released the file."""

PAGE_BYTES: Final = 8192
"""Messages of two kilobytes waste half of a 4 KiB page; three of them fill a page of this size."""

STATEMENTS: Final = 512
"""Size of the cache of prepared statements. The driver drops a statement that is not among this many last *uses*,
however few of these differ."""

WAL_BYTES_KEPT: Final = 64 * 1024 * 1024


def check_library(version: int | None = None) -> None:
    """Raise TierNotKept if the linked SQLite is too old to be durable."""
    version = apsw.SQLITE_VERSION_NUMBER if version is None else version
    if version < OLDEST_LIBRARY:
        msg = f"the linked SQLite is {version}, Holdfast needs at least {OLDEST_LIBRARY} (3.51.3)"
        raise TierNotKept(msg, hint="pip install --upgrade apsw (its wheels bundle a current SQLite).")


def connect(path: Path, *, vfs: str | None = None, read_only: bool = False) -> apsw.Connection:
    """Open a connection with our settings; the file must exist."""
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    try:
        connection = apsw.Connection(str(path), flags=flags, vfs=vfs, statementcachesize=STATEMENTS)
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    try:
        if connection.readonly("main") and not read_only:
            # SQLite opens a read-only file without an error; the first write would fail.
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
            _run_pragma(connection, pragma)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        # Without it, binding a value that could select a partial index prepares the statement again each time: a claim
        # costs thirty times as much. Our statements contain the constants of those indexes as literals.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    except HoldfastError:
        connection.close()
        raise
    return connection


def check_file_is_ours(connection: apsw.Connection, path: Path) -> bool:
    """Check that the file is ours, or empty so that it may become ours; returns True for a new one. Raises ForeignFile
    for the file of another program, before anything is changed."""
    try:
        # In this order: another process that creates a store right now commits its mark together with its first table.
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchall()[0][0]
        found = _run_pragma(connection, "application_id")
        if found == APPLICATION_ID:
            return bool(tables == 0)
        if found != 0 or tables != 0:
            # Closing the last connection would checkpoint and remove the WAL of a file that is not ours.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            msg = f"{path} is the database of another program"
            raise ForeignFile(msg)
        _run_pragma(connection, f"page_size = {PAGE_BYTES}")
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    return True


def write_application_id(connection: apsw.Connection) -> None:
    """Write our application id, as part of the current transaction. Outside of one, in an empty file, it would cost
    four writes to the disk."""
    _run_pragma(connection, f"application_id = {APPLICATION_ID}")


def make_durable(connection: apsw.Connection, *, relaxed: bool = False) -> None:
    """Set up the connection so that its commits survive what the tier promises."""
    mode = _switch_to_wal(connection)
    if mode != "wal":
        msg = f"the file cannot be switched to WAL, it stays {mode}"
        raise TierNotKept(msg, hint="Keep the file on a local disk.")
    _run_pragma(connection, f"synchronous = {'NORMAL' if relaxed else 'FULL'}")
    # On macOS an ordinary fsync leaves the data in the drive's cache; elsewhere this changes nothing.
    _run_pragma(connection, "fullfsync = ON")
    _run_pragma(connection, "checkpoint_fullfsync = ON")
    _run_pragma(connection, f"journal_size_limit = {WAL_BYTES_KEPT}")


def _switch_to_wal(connection: apsw.Connection) -> object:
    """Switch the file to WAL; returns the mode it then has. For the switch SQLite needs an exclusive lock on the file,
    and fails at once if another connection is about to write, as happens when several processes create the same file.
    So this waits for the other connections and tries again; once one process has switched the file, the others have
    nothing to do."""
    for _ in range(SWITCHES_MAX):
        try:
            return _run_pragma(connection, "journal_mode = WAL")
        except StoreBusy:
            _wait_for_all(connection)
    return _run_pragma(connection, "journal_mode = WAL")


def _wait_for_all(connection: apsw.Connection) -> None:
    """Wait until every other connection has released the file for a moment."""
    try:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("ROLLBACK")
    except apsw.Error as error:
        raise translate(error, connection.filename) from error


def read_settings(connection: apsw.Connection) -> dict[str, str]:
    """The settings as the database reports them."""
    names = ("journal_mode", "synchronous", "mmap_size", "foreign_keys", "page_size", "application_id")
    values = {name: str(_run_pragma(connection, name)) for name in names}
    return {"library": apsw.sqlite_lib_version(), **values}


def _run_pragma(connection: apsw.Connection, text: str) -> object:
    try:
        rows = connection.execute("PRAGMA " + text).fetchall()
    except apsw.Error as error:
        raise translate(error, connection.filename) from error
    return rows[0][0] if rows else None
