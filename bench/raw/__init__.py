"""The database with nothing around it: what a careful programmer would write by hand, and no promise kept beyond it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bench.contest import Contestant
from bench.raw import postgres, sqlite

Entry = Callable[[Any], Contestant]
"""Makes a contestant for a place of its own store."""


class Raw(msgspec.Struct, frozen=True):
    """The raw contestants of one database. Where there are several for one piece of work, the fastest counts."""

    one: Entry
    groups: tuple[Entry, ...]
    inserts: Entry
    turns: tuple[Entry, ...]
    steps: Entry
    history: Callable[..., Contestant]


RAW = {
    "sqlite": Raw(
        sqlite.InsertOne,
        (sqlite.WriteGroup,),
        sqlite.InsertGroup,
        (sqlite.WriteTurn,),
        sqlite.InsertSteps,
        sqlite.ReadHistory,
    ),
    "postgres": Raw(
        postgres.InsertOne,
        (postgres.WriteGroupByRows, postgres.WriteGroupByArrays),
        postgres.InsertGroup,
        (postgres.WriteTurn, postgres.WriteTurnAtOnce),
        postgres.InsertSteps,
        postgres.ReadHistory,
    ),
}
