"""Slow path of canonical JSON: values that msgspec cannot write or read, and the errors that name the place.

`canonical` calls this module only in unusual cases: lone surrogates, spaces or another order of keys, or a fault to
explain. Both paths must agree on every byte and every value; the property tests compare them.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from math import isfinite
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.errors import InvalidPayload, TooLarge
from holdfast.model.limits import INTEGER_MAX, JSON_DEPTH_MAX

# A place in a document, innermost first; rendered as a JSON pointer only when an error needs it.
Place: TypeAlias = "tuple[Place, str | int] | None"

_write_scalar = msgspec.json.Encoder(order="deterministic").encode
_SURROGATE: Final = re.compile("([\ud800-\udfff])")
_INTEGER_LENGTH_MAX: Final = len(str(-INTEGER_MAX))
_SHOWN_MAX: Final = 200
_TYPES_HINT: Final = "Convert it first: dict, list, str, int, float, bool and None are stored, nothing else."
_INTEGER_HINT: Final = "Send large integers as text; numbers reach from -(2**63-1) to 2**63-1."


# ── writing ───────────────────────────────────────────────────────────────────────────────────────


def write(value: Any, place: Place = None) -> bytes:
    """Return the canonical bytes of a plain value that may hold lone surrogates."""
    if isinstance(value, Enum):
        value = value.value
    kind = type(value)
    if kind is str:
        return _write_text(_join_pairs(value))
    if kind is dict:
        joined = {_join_pairs(key): key for key in value}
        if len(joined) != len(value):
            raise InvalidPayload(
                f"two keys are the same text once surrogates are joined ({format_place(place)})"
            )
        members = (
            _write_text(text) + b":" + write(value[joined[text]], (place, text)) for text in sorted(joined)
        )
        return b"{" + b",".join(members) + b"}"
    if kind is list or kind is tuple:
        return b"[" + b",".join(write(item, (place, index)) for index, item in enumerate(value)) + b"]"
    return _write_scalar(value)


def _write_text(text: str) -> bytes:
    if text.isascii():
        return _write_scalar(text)
    pieces = _SURROGATE.split(text)  # text, surrogate, text, …, text
    written = [
        b"\\u%04x" % ord(piece) if i % 2 else _write_scalar(piece)[1:-1] for i, piece in enumerate(pieces)
    ]
    return b'"' + b"".join(written) + b'"'


def _join_pairs(text: str) -> str:
    """A high and a low surrogate side by side become their character; all else stays."""
    if text.isascii():
        return str.__str__(text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


class _DuplicateKeys(list[tuple[str, Any]]):
    """An object with duplicate keys, as it was written."""


class _RefusedNumber(str):
    """A number that Holdfast does not store, as it was written."""

    __slots__ = ()


def read(data: bytes) -> Any:
    """Return the value of any JSON document within the rules of `canonical`, or raise where it breaks one."""
    try:
        parsed = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_read_object,
            parse_int=_read_integer,
            parse_float=_read_float,
            parse_constant=_RefusedNumber,
        )
    except UnicodeDecodeError as error:
        raise InvalidPayload(f"not UTF-8 at byte {error.start}: {error.reason}") from None
    except json.JSONDecodeError as error:
        raise InvalidPayload(f"not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise InvalidPayload(f"nested deeper than {JSON_DEPTH_MAX} levels") from None
    _check_read(parsed, None, 0)
    return parsed


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _DuplicateKeys:
    value = dict(pairs)
    return value if len(value) == len(pairs) else _DuplicateKeys(pairs)


def _read_integer(text: str) -> int | _RefusedNumber:
    # Length first: Python takes quadratic time over long numbers, and refuses very long ones with another
    # error.
    if len(text) > _INTEGER_LENGTH_MAX or not -INTEGER_MAX <= int(text) <= INTEGER_MAX:
        return _RefusedNumber(text)
    return int(text)


def _read_float(text: str) -> float | _RefusedNumber:
    number = float(text)
    return number if isfinite(number) else _RefusedNumber(text)


def _check_read(parsed: Any, place: Place, depth: int) -> None:
    kind = type(parsed)
    if kind is _RefusedNumber:
        raise InvalidPayload(
            f"{_clip(parsed)} is not a number we store ({format_place(place)})", hint=_INTEGER_HINT
        )
    if kind is not dict and kind is not list and kind is not _DuplicateKeys:
        return
    if depth == JSON_DEPTH_MAX:
        raise too_deep(place)
    if kind is list:
        for index, item in enumerate(parsed):
            _check_read(item, (place, index), depth + 1)
        return
    seen: set[str] = set()
    for key, item in parsed if kind is _DuplicateKeys else parsed.items():
        if kind is _DuplicateKeys and key in seen:
            raise InvalidPayload(f"the key is there twice ({format_place((place, key))})")
        seen.add(key)
        _check_read(item, (place, key), depth + 1)


# ── simplifying ───────────────────────────────────────────────────────────────────────────────────


def is_plain_enum(item: object) -> bool:
    """Whether this is a member of a StrEnum or IntEnum, which equals what msgspec writes for it."""
    if not isinstance(item, str | int) or not isinstance(item, Enum):
        return False
    value = item.value
    return type(value) is str or (type(value) is int and -INTEGER_MAX <= value <= INTEGER_MAX)


def simplify(value: Any, bytes_max: int, depth_max: int = JSON_DEPTH_MAX) -> Any:
    """Return a copy made of dict, list, str, int, float, bool and None, without subclasses of them.

    Raises InvalidPayload for the first value in document order that is not JSON we store, and TooLarge after as many
    values as cannot fit: a small object that refers to others many times over has more places than can be visited.
    """
    return _simplify(value, None, {}, _Bounds(bytes_max, depth_max))


class _Bounds:
    """The number of values that a document of so many bytes may still have: each but the outermost takes two bytes or
    more."""

    def __init__(self, bytes_max: int, depth_max: int) -> None:
        self.depth_max = depth_max
        self._bytes_max = bytes_max
        self._left = bytes_max // 2 + 1

    def count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise too_large(None, self._bytes_max)


def too_large(size: int | None, bytes_max: int) -> TooLarge:
    """The error for a document of so many bytes; None: the size is unknown."""
    found = "more" if size is None else f"{size:,} bytes, more"
    return TooLarge(f"{found} than the limit of {bytes_max:,} bytes of JSON")


def _simplify(value: Any, place: Place, above: dict[int, Place], bounds: _Bounds) -> Any:
    bounds.count()
    kind = type(value)
    if kind is bool or value is None or kind is str:
        return value
    if is_plain_enum(value):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return _simplify_integer(int.__int__(value), place)
    if isinstance(value, float):
        return _simplify_float(float.__float__(value), place)
    if not isinstance(value, dict | list | tuple):
        raise InvalidPayload(
            f"{kind.__module__}.{kind.__qualname__} is not a JSON type ({format_place(place)})",
            hint=_TYPES_HINT,
        )
    if id(value) in above:
        raise contains_itself(place, above[id(value)])
    if len(above) == bounds.depth_max:
        raise too_deep(place, bounds.depth_max)
    above[id(value)] = place
    try:
        if isinstance(value, dict):
            return _simplify_object(value, place, above, bounds)
        items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
        return [_simplify(item, (place, index), above, bounds) for index, item in enumerate(items)]
    finally:
        del above[id(value)]


def _simplify_object(
    value: dict[Any, Any], place: Place, above: dict[int, Place], bounds: _Bounds
) -> dict[str, Any]:
    simple: dict[str, Any] = {}
    for key, item in dict.items(value):
        if not isinstance(key, str):
            msg = f"the key {format_key(key)} is {type(key).__qualname__}, not text ({format_place(place)})"
            raise InvalidPayload(msg, hint="Make each key a str.")
        text = key if type(key) is str else str.__str__(key)
        if text in simple:
            raise InvalidPayload(f"two keys are the same text: {format_key(text)} ({format_place(place)})")
        simple[text] = _simplify(item, (place, text), above, bounds)
    return simple


def _simplify_integer(value: int, place: Place) -> int:
    if -INTEGER_MAX <= value <= INTEGER_MAX:
        return value
    msg = f"an integer of {value.bit_length()} bits is not a number we store ({format_place(place)})"
    raise InvalidPayload(msg, hint=_INTEGER_HINT)


def _simplify_float(value: float, place: Place) -> float:
    if isfinite(value):
        return value
    raise InvalidPayload(f"{value} is not a number we store ({format_place(place)})")


def contains_itself(place: Place, above: Place) -> InvalidPayload:
    """The error for a value that contains itself: it appears at `place` and at `above`."""
    msg = f"it contains itself: what is {format_place(place)} is also {format_place(above)}"
    return InvalidPayload(msg, hint="JSON is a tree. Leave the reference out, or store an id instead.")


def too_deep(place: Place, depth_max: int = JSON_DEPTH_MAX) -> InvalidPayload:
    """The error for a value that is nested too deep."""
    return InvalidPayload(f"nested deeper than {depth_max} levels ({format_place(place)})")


def format_key(key: object) -> str:
    """A key as an error message shows it: printable, and short enough to read."""
    try:
        return _clip(repr(key))
    except Exception:  # a user's class, whose __repr__ may raise
        return f"of class {type(key).__qualname__}"


def format_place(place: Place) -> str:
    """Return "at " and the JSON pointer (RFC 6901) of a place, printable and short enough to read."""
    keys: list[str] = []
    while place is not None:
        place, key = place
        keys.append(f"{key}".replace("~", "~0").replace("/", "~1"))
    return f"at {_clip('/'.join(['', *reversed(keys)]))}" if keys else "at the top"


def _clip(text: str) -> str:
    clipped = text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in clipped)
