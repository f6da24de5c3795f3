"""Pages of lists without a cursor of their own: lists that are short, or merged from several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from holdfast.model.page import Key, Page, decode_cursor, encode_cursor

T = TypeVar("T")


def cut_page(
    kind: str,
    rows: Sequence[T],
    place: Callable[[T], tuple[Key, ...]],
    *,
    keys: int,
    limit: int,
    cursor: str | None,
) -> Page[T]:
    """The rows after the cursor, up to the limit. They are ordered by their places, which differ and have so many
    keys.

    A row that was removed meanwhile, even the last one of the page before, neither shifts nor repeats the rest.
    """
    after = None if cursor is None else decode_cursor(kind, cursor, keys=keys)
    behind = [row for row in rows if after is None or _is_behind(place(row), after)]
    items = tuple(behind[:limit])
    more = len(behind) > limit
    return Page(items, encode_cursor(kind, *place(items[-1])) if more else None)


def _is_behind(place: tuple[Key, ...], after: tuple[Key, ...]) -> bool:
    return [(str(type(key)), key) for key in place] > [(str(type(key)), key) for key in after]
