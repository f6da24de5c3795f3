"""SQLite's errors in our words, by result code, never by message."""

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


# Where the extended code says more than the type.
_CODES: dict[int, tuple[type[HoldfastError], str]] = {
    # SQLite has no other word for a shared memory file that cannot grow, and there is hardly another reason.
    apsw.SQLITE_IOERR_SHMSIZE: (StoreFull, "no room for the shared memory file"),
}

# A commit whose flush failed lies in the log. It is undone for now, but a crash before the next commit, and recovery
# after it, would bring it back: nobody can say "nothing was written".
_COMMIT_CODES: dict[int, tuple[type[HoldfastError], str]] = {
    apsw.SQLITE_IOERR_FSYNC: (OutcomeUnknown, "the disk could not flush the commit"),
    apsw.SQLITE_IOERR_DIR_FSYNC: (OutcomeUnknown, "the disk could not flush the folder"),
}


def translate(error: apsw.Error, where: str) -> HoldfastError:
    """The same news as one of our errors; the original stays as its cause."""
    return _translated(error, where, _CODES)


def translate_commit(error: apsw.Error) -> HoldfastError:
    """The same for what went wrong in COMMIT."""
    return _translated(error, "commit", _CODES | _COMMIT_CODES)


def _translated(
    error: apsw.Error, where: str, codes: dict[int, tuple[type[HoldfastError], str]]
) -> HoldfastError:
    by_type = [(ours, words) for theirs, ours, words in _TYPES if isinstance(error, theirs)]
    by_code = codes.get(getattr(error, "extendedresult", 0))
    ours, words = by_code or next(iter(by_type), (Broken, "SQLite refused a statement"))
    translated = ours(f"{words} ({where}: {error})")
    translated.__cause__ = error
    return translated
