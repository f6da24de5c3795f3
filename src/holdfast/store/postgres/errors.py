"""Postgres error translation: by SQLSTATE, never by message."""

from __future__ import annotations

import asyncpg

from holdfast.errors import (
    Broken,
    HoldfastError,
    InvalidMove,
    InvalidPayload,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

CONNECTION_LOST = (
    OSError,
    EOFError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
)
"""Exceptions of asyncpg when the server does not answer, or when the state of the protocol is unknown."""

_BY_STATE: dict[str, tuple[type[HoldfastError], str, str | None]] = {
    "22": (
        InvalidPayload,
        "a value fits no column",
        "Send well-formed text without NUL, and integers of at most 64 bits.",
    ),
    "23": (InvalidMove, "the database refused a row", None),
    "25006": (StoreReadOnly, "the server is read-only (a replica?)", "Connect to the primary."),
    "28": (
        StoreUnavailable,
        "the server refused the login",
        "Check user and password in the store's address.",
    ),
    "3D000": (StoreUnavailable, "there is no such database", "Create it first: createdb NAME."),
    "3F000": (StoreUnavailable, "there is no such schema", "Run `holdfast db migrate`."),
    "40": (StoreBusy, "the transaction collided with another", None),
    "42501": (
        StoreReadOnly,
        "this user may not write here",
        "Grant it rights on the schema, or use another user.",
    ),
    "42P01": (StoreUnavailable, "a table is missing", "Run `holdfast db migrate`."),
    "53100": (StoreFull, "the server's disk is full", None),
    "53": (StoreUnavailable, "the server is out of a resource", None),
    "55P03": (StoreBusy, "a lock was not free in time", None),
    "57014": (StoreBusy, "the statement took too long", None),
    "57": (StoreUnavailable, "the server is going down or coming up", None),
    "58": (StoreUnavailable, "the server's disk reported an error", None),
    "08": (StoreUnavailable, "the connection broke", None),
    "XX001": (StoreCorrupt, "the server found damaged data", None),
    "XX002": (StoreCorrupt, "the server found a damaged index", None),
}

COLLIDED = frozenset({"40001", "40P01"})
"""Serialisation failure and deadlock: nothing was written, and a retry is the remedy."""

AWAY = ("57P", "08", "53300")


def translate(error: BaseException, where: str) -> HoldfastError:
    """Translate an error of asyncpg into one of ours; the original is its cause."""
    state = getattr(error, "sqlstate", None) or ""
    for prefix in (state, state[:2]):
        if prefix in _BY_STATE:
            kind, text, hint = _BY_STATE[prefix]
            translated = kind(f"{text} ({where}: {error})", hint=hint)
            break
    else:
        if isinstance(error, CONNECTION_LOST):
            translated = StoreUnavailable(
                f"the server does not answer ({where}: {error or type(error).__name__})"
            )
        else:
            translated = Broken(f"Postgres refused a statement ({where}: {error})")
    translated.__cause__ = error
    return translated


def is_away(error: BaseException) -> bool:
    """Whether the server cannot be reached at the moment, as opposed to having rejected the statement."""
    state = getattr(error, "sqlstate", None) or ""
    return isinstance(error, CONNECTION_LOST) or state.startswith(AWAY)
