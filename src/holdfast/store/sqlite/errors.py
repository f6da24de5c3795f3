"""SQLite error translation: by result code, never by message."""

from __future__ import annotations

import apsw

from holdfast.errors import (
    Broken,
    ForeignFile,
    HoldfastError,
    InvalidMove,
    OutcomeUnknown,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

_TYPES: list[tuple[type[apsw.Error], type[HoldfastError], str]] = [
    (apsw.BusyError, StoreBusy, "another process holds the database file"),
    (apsw.LockedError, StoreBusy, "another connection holds the database"),
    (apsw.FullError, StoreFull, "the disk is full"),
    (apsw.ReadOnlyError, StoreReadOnly, "the database file cannot be written"),
    (apsw.PermissionsError, StoreReadOnly, "the database file cannot be written"),
    (apsw.CantOpenError, StoreUnavailable, "the database file cannot be opened"),
    (apsw.IOError, StoreUnavailable, "the disk reported an error"),
    (apsw.NotADBError, ForeignFile, "the file is not a database"),
    (apsw.CorruptError, StoreCorrupt, "the database file is damaged"),
    (apsw.ConstraintError, InvalidMove, "the database refused a row"),
]


# Extended result codes that are more precise than the exception type.
_CODES: dict[int, tuple[type[HoldfastError], str]] = {
    # SQLite reports a shared memory file that cannot grow only this way; the usual reason is a full disk.
    apsw.SQLITE_IOERR_SHMSIZE: (StoreFull, "no room for the shared memory file"),
}

# A commit whose flush failed is in the WAL. SQLite rolls it back, but after a crash before the next commit, recovery
# would bring it back: so the outcome is unknown.
_COMMIT_CODES: dict[int, tuple[type[HoldfastError], str]] = {
    apsw.SQLITE_IOERR_FSYNC: (OutcomeUnknown, "the disk could not flush the commit"),
    apsw.SQLITE_IOERR_DIR_FSYNC: (OutcomeUnknown, "the disk could not flush the folder"),
}


def translate(error: apsw.Error, where: str) -> HoldfastError:
    """Translate a SQLite error into one of ours; the original is its cause."""
    return _translate(error, where, _CODES)


def translate_commit(error: apsw.Error) -> HoldfastError:
    """Translate an error of COMMIT."""
    return _translate(error, "commit", _CODES | _COMMIT_CODES)


def _translate(
    error: apsw.Error, where: str, codes: dict[int, tuple[type[HoldfastError], str]]
) -> HoldfastError:
    by_type = [(kind, text) for apsw_type, kind, text in _TYPES if isinstance(error, apsw_type)]
    by_code = codes.get(getattr(error, "extendedresult", 0))
    kind, text = by_code or next(iter(by_type), (Broken, "SQLite refused a statement"))
    translated = kind(f"{text} ({where}: {error})")
    translated.__cause__ = error
    return translated
