"""JSON read as a type, again and again: what msgspec finds out about the type is found out once.

A resumed job reads every result that it ever had, and `msgspec.convert` examines a hint such as `dict[str, int]` anew
at every call, which takes longer than the reading. It keeps what it knows of a struct, though. So the hint becomes the
one field of a struct made for it, and a value is read as that struct.

What does not fit is read once more the plain way: there the error says the place in the value that the user gave, and
hints that msgspec cannot read are what they always were, no hints.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import msgspec

SCALARS: Final = frozenset({str, int, float, bool, type(None)})
"""What is JSON as it is."""

PLAIN: Final = {dict: (dict, dict[str, Any]), list: (list, list[Any])}
"""Hints that ask no more of a value than JSON promises: their value is copied, as msgspec would."""


def is_anything(kind: Any) -> bool:
    """Whether the hint asks nothing of a value."""
    return kind is Any or kind is None or kind is inspect.Parameter.empty


class Reader:
    """Reads values as one type. `plainly` is the way for those that do not fit; `hook` reads what msgspec cannot."""

    __slots__ = ("_as_is", "_box", "_copied", "_hint", "_hook", "_plainly", "_scalar")

    def __init__(
        self, kind: Any, plainly: Callable[[Any], Any], hook: Callable[[type, Any], Any] | None = None
    ) -> None:
        self._plainly = plainly
        self._hook = hook
        self._as_is = is_anything(kind)
        self._scalar = kind if isinstance(kind, type) and kind in SCALARS else None
        self._copied: Any = next((plain for plain, hints in PLAIN.items() if kind in hints), None)
        self._hint = kind
        self._box: Any = msgspec.UNSET

    def read(self, value: Any) -> Any:
        """The value as the type says; or what the plain way makes of it."""
        if self._as_is or type(value) is self._scalar:
            return value
        if type(value) is self._copied:
            return value.copy()
        if self._box is msgspec.UNSET:
            self._box = _box(self._hint)
        if self._box is None:
            return self._plainly(value)
        try:
            return msgspec.convert({"value": value}, self._box, dec_hook=self._hook).value
        except msgspec.ValidationError:
            pass
        except (TypeError, NameError):
            self._box = None
        return self._plainly(value)


def _box(kind: Any) -> Any:
    """A struct whose one field is of this kind; None, if there can be none. Made late: many tools are never called."""
    try:
        return msgspec.defstruct("Box", [("value", kind)])
    except (TypeError, ValueError, NameError):
        return None
