"""Payloads: converts any Python value to JSON, or raises an error that names the place that has no JSON form.

msgspec writes dataclasses, structs, enums, dates and the rest as JSON. As a serialiser of trees it does not check
four things:

    keys      `{1: …, "1": …}` has two keys and its JSON has one
    cycles    a list that contains itself ends in a RecursionError, and so does one that is 10,000 levels deep
    sets      have another order in another process, so the same call would have other arguments in a replay
    __str__   a key of a subclass of str is written as what its `__str__` returns

A value that equals its JSON has none of these problems. That is almost every value, costs one comparison, and does
not come here. For the rest `is_ordinary` checks quickly whether the value is a tree with text keys: dataclasses,
dates. `_Writer` writes all others, slowly.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from math import isfinite
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model import canonical_fallback
from holdfast.model.canonical import SCALARS
from holdfast.model.limits import JSON_BYTES_MAX, JSON_DEPTH_MAX

Order: TypeAlias = Literal["deterministic"] | None
Convert: TypeAlias = Callable[[Any, Order], Any]
"""Writes an object as JSON, its sets in this order; raises TypeError or ValueError if it cannot."""

HINT: Final = "Use JSON, dataclasses, msgspec structs, pydantic models, enums or dates."

_TEXT: Final = frozenset({str})
_VALUES_MAX: Final = JSON_BYTES_MAX // 2
_MAPPING: Final = "mapping"
_SEQUENCE: Final = "sequence"
_SET: Final = "set"

Shape: TypeAlias = str | tuple[str, ...] | None
"""The contents of an object: items under keys, items, or the values of these fields; None: no contents."""


@lru_cache(1024)
def _shape(kind: type[Any]) -> Shape:
    if issubclass(kind, Enum):
        return ("value",)
    if issubclass(kind, dict):
        return _MAPPING
    if issubclass(kind, list | tuple):
        return _SEQUENCE
    if issubclass(kind, set | frozenset):
        return _SET
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    attributes: Iterable[Any] = getattr(kind, "__attrs_attrs__", ())
    return tuple(attribute.name for attribute in attributes) or None


def to_json(value: Any, subject: str, convert: Convert) -> Any:
    """The JSON of a value, written by `convert`.

    Raises:
        InvalidPayload: It cannot be stored as JSON without loss; the message holds a JSON pointer to the place.
        TooLarge: It has more values than fit.
    """
    if is_ordinary(value):
        with suppress(TypeError, ValueError, RecursionError):  # the slow path names the place
            return convert(value, None)
    return _Writer(subject, convert).write(value)


def is_ordinary(value: Any) -> bool:
    """Whether the value is a tree of moderate size without sets, in which every key is text.

    It walks level by level, because depth then costs one addition per level. Subclasses are read as msgspec reads
    them: by the methods of their base class.
    """
    level = [value]
    count = 0
    for _ in range(JSON_DEPTH_MAX + 1):
        deeper: list[Any] = []
        for container in level:
            kind: Any = type(container)
            shape = _MAPPING if kind is dict else _SEQUENCE if kind is list else _shape(kind)
            items: Collection[Any]
            if shape is None:
                continue
            if shape is _MAPPING:
                if not _TEXT.issuperset(map(type, dict.keys(container))):
                    return False
                items = dict.values(container)
            elif shape is _SEQUENCE:
                items = container if kind is list else _sequence(container)
            elif shape is _SET:
                return False
            else:
                items = _fields(container, shape)
            count += len(items)
            deeper += [item for item in items if type(item) not in SCALARS]
        if not deeper:
            return True
        if count > _VALUES_MAX:
            return False
        level = deeper
    return False


def _sequence(value: Any) -> list[Any]:
    return [*list.__iter__(value)] if isinstance(value, list) else [*tuple.__iter__(value)]


def _fields(value: Any, names: Iterable[str]) -> list[Any]:
    return [getattr(value, name, None) for name in names]


class _Writer:
    """Writes a value that is not ordinary, container by container; msgspec writes the objects in it."""

    def __init__(self, subject: str, convert: Convert) -> None:
        self._what = subject
        self._convert = convert
        self._above: dict[int, canonical_fallback.Place] = {}
        self._left = _VALUES_MAX
        self._sets = 0
        self._objects = 0

    def write(self, value: Any, place: canonical_fallback.Place = None) -> Any:
        self._left -= 1
        if self._left < 0:
            raise canonical_fallback.too_large(None, JSON_BYTES_MAX)
        kind: Any = type(value)
        if kind in SCALARS:
            return value
        shape = _shape(kind)
        if shape is None:
            return self._write_leaf(value, place)
        if id(value) in self._above:
            raise self._refusal(canonical_fallback.contains_itself(place, self._above[id(value)]))
        if len(self._above) == JSON_DEPTH_MAX:
            raise self._refusal(canonical_fallback.too_deep(place))
        self._above[id(value)] = place
        converted = self._write_container(value, shape, place)
        del self._above[id(value)]
        return converted

    def _write_container(
        self, value: Any, shape: str | tuple[str, ...], place: canonical_fallback.Place
    ) -> Any:
        if shape is _MAPPING:
            return self._write_mapping(value, place)
        if shape is _SEQUENCE:
            return [self.write(item, (place, index)) for index, item in enumerate(_sequence(value))]
        if shape is _SET:
            self._sets += 1
            return _sort([self.write(item, (place, index)) for index, item in enumerate(value)])
        return self._write_object(value, tuple(shape), place)

    def _write_mapping(self, value: dict[Any, Any], place: canonical_fallback.Place) -> dict[str, Any]:
        keys: dict[str, Any] = {}
        converted: dict[str, Any] = {}
        for key, item in dict.items(value):
            text = self._write_key(key, place)
            if text in keys:
                both_keys = (
                    f"{canonical_fallback.format_key(keys[text])} and {canonical_fallback.format_key(key)}"
                )
                msg = f"the keys {both_keys} are the same text in JSON ({canonical_fallback.format_place(place)})"
                raise self._refusal(InvalidPayload(msg, hint="Rename one of them: keys are stored as text."))
            keys[text] = key
            converted[text] = self.write(item, (place, text))
        return converted

    def _write_key(self, key: Any, place: canonical_fallback.Place) -> str:
        if type(key) is str:
            return key
        try:
            if isinstance(key, float) and not isfinite(key):
                raise TypeError
            (text,) = self._convert({key: None}, None)
        except (TypeError, ValueError):
            key_text, where = canonical_fallback.format_key(key), canonical_fallback.format_place(place)
            msg = f"the key {key_text} is {type(key).__qualname__}, not text ({where})"
            hint = "Keys are text; numbers, enums, dates and UUIDs are stored as text."
            raise self._refusal(InvalidPayload(msg, hint=hint)) from None
        if not isinstance(key, str) or isinstance(key, Enum):
            return str(text)
        if self._objects and text != str.__str__(key):
            key_text, where = canonical_fallback.format_key(key), canonical_fallback.format_place(place)
            msg = f"the key {key_text} is another text by its __str__ ({where})"
            raise self._refusal(InvalidPayload(msg, hint="Make each key a str."))
        return str.__str__(key)

    def _write_object(self, value: Any, names: tuple[str, ...], place: canonical_fallback.Place) -> Any:
        """Checks the fields; the object itself decides how it is written (other names, tags, omitted fields)."""
        sets = self._sets
        self._objects += 1
        for name, item in zip(names, _fields(value, names), strict=True):
            self.write(item, (place, name))
        self._objects -= 1
        return self._write_leaf(value, place, "deterministic" if self._sets > sets else None)

    def _write_leaf(self, value: Any, place: canonical_fallback.Place, order: Order = None) -> Any:
        try:
            return self._convert(value, order)
        except RecursionError:
            name, where = type(value).__qualname__, canonical_fallback.format_place(place)
            msg = f"{name} contains itself, or is nested too deeply ({where})"
            raise self._refusal(InvalidPayload(msg, hint=HINT)) from None
        except (TypeError, ValueError) as error:
            raise self._refusal(
                InvalidPayload(f"{error} ({canonical_fallback.format_place(place)})", hint=HINT)
            ) from None

    def _refusal(self, error: InvalidPayload) -> InvalidPayload:
        return InvalidPayload(f"{self._what} cannot be stored: {error}", hint=error.hint)


def _sort(items: list[Any]) -> list[Any]:
    """The items of a set, in an order that is the same in every process."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


# ── subclasses ────────────────────────────────────────────────────────────────────────────────────


def to_base(value: Any) -> Any:
    """An instance of a subclass of text, a number, bytes or a date as its base class; anything else as it is."""
    match value:
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case bytes() | bytearray():
            return bytes(value)
        case Decimal():
            return Decimal(value)
        case dt.datetime():
            return dt.datetime.combine(dt.datetime.date(value), dt.datetime.timetz(value))
        case dt.date():
            return dt.date(value.year, value.month, value.day)
        case dt.time():
            hour, minute, second = value.hour, value.minute, value.second
            return dt.time(hour, minute, second, value.microsecond, value.tzinfo, fold=value.fold)
        case dt.timedelta():
            return dt.timedelta(value.days, value.seconds, value.microseconds)
    return value


def from_base(kind: type, value: Any) -> Any:
    """A JSON value as a subclass of its type, for a hint that names one; anything else as it is."""
    base = type(value)
    is_list = base is list and issubclass(kind, list | tuple | set | frozenset)
    if is_list or (base in {str, int, float, dict} and issubclass(kind, base)):
        return kind(value)
    return value
