"""Errors as facts: what a failed call leaves in the journal, and what the code gets, the first time and in replay.

Code that catches an error must catch the same error when the job is replayed, or it takes another way. But nothing in
stored data may name a class to be imported. So there is a closed list: Python's own exceptions, ours, and those that
whoever declared the call listed in `raises`. Any other error reaches the code as `CallFailed`, from the first time on,
with the original as its cause.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from typing import Any, Final

from holdfast.errors import CallFailed, HoldfastError


def _ours(kind: type[HoldfastError]) -> Iterator[type[Exception]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _ours(one)


_PYTHONS: Final = [
    kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, Exception)
]
_KNOWN: Final = {kind.__name__: kind for kind in [*_PYTHONS, *_ours(HoldfastError)]}


def told(error: Exception) -> dict[str, Any]:
    """The error as the journal keeps it."""
    return {"type": type(error).__qualname__, "message": str(error)[:10_000]}


def raised(error: Exception, declared: Iterable[type[Exception]] = ()) -> Exception:
    """What the code gets for an error that just happened."""
    if _class_named(type(error).__qualname__, declared) is type(error):
        return error
    failed = CallFailed(f"{type(error).__qualname__}: {error}", error_type=type(error).__qualname__)
    failed.__cause__ = error
    return failed


def recorded(record: dict[str, Any], declared: Iterable[type[Exception]] = ()) -> Exception:
    """What the code gets for an error that the journal tells."""
    name, message = record["type"], record["message"]
    kind = _class_named(name, declared)
    if kind is None:
        return CallFailed(f"{name}: {message}", error_type=name)
    error = kind.__new__(kind)
    error.args = (message,)
    return error


def _class_named(name: str, declared: Iterable[type[Exception]]) -> type[Exception] | None:
    for kind in declared:
        if kind.__qualname__ == name:
            return kind
    return _KNOWN.get(name)
