"""Pages of a listing, and the cursors that lead from one to the next.

A cursor names the last row seen, not a number of rows to skip: rows that arrive or leave between two requests neither
shift nor repeat the rest. Clients treat it as opaque. It is not a secret and grants nothing (its keys are compared with
rows the caller may see anyway), but a cursor that is cut, edited or from another listing is detected and rejected,
since continuing from a wrong place would look like success.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

import msgspec

from holdfast.errors import InvalidPayload, TooLarge
from holdfast.model import canonical
from holdfast.model.limits import CURSOR_LENGTH_MAX

T = TypeVar("T")
Key = str | int | None

_CHECK_BYTES: Final = 6
_HINT: Final = (
    "Pass the cursor as the previous page gave it, to the same listing, or leave it out to start over."
)


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list; `next` is the cursor of the next page, None on the last."""

    items: tuple[T, ...]
    next: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def encode_cursor(kind: str, *keys: Key) -> str:
    """Return a cursor of a listing: URL-safe text that holds the keys of the last row."""
    body = canonical.encode([kind, *keys])
    text = _to_text(canonical.digest(body)[:_CHECK_BYTES] + body)
    if len(text) > CURSOR_LENGTH_MAX:
        raise TooLarge(f"a cursor of {len(text):,} characters, more than {CURSOR_LENGTH_MAX:,}", hint=_HINT)
    return text


def decode_cursor(kind: str, text: str, *, keys: int) -> tuple[Key, ...]:
    """Return the keys, so many, of a cursor that `encode_cursor` made for this kind of listing.

    Raises:
        InvalidPayload: Cut, edited, too long, made up, or made for another listing.
    """
    if len(text) > CURSOR_LENGTH_MAX:
        raise InvalidPayload(f"the cursor has {len(text):,} characters: it is not valid", hint=_HINT)
    try:
        data = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
    except ValueError:
        raise InvalidPayload("the cursor is not valid", hint=_HINT) from None
    check, body = data[:_CHECK_BYTES], data[_CHECK_BYTES:]
    # Decoding skips foreign characters and unused bits; comparing texts leaves one spelling per cursor.
    if check != canonical.digest(body)[:_CHECK_BYTES] or text != _to_text(data):
        raise InvalidPayload("the cursor is damaged", hint=_HINT)
    match canonical.decode(body):
        case [found, *rest] if found == kind and len(rest) == keys:
            return tuple(rest)
        case [str(found), *_] if found != kind:
            raise InvalidPayload(f"the cursor belongs to a listing of {found}, not of {kind}", hint=_HINT)
        case _:
            raise InvalidPayload("the cursor is not valid", hint=_HINT)


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
