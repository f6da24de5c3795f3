"""Errors as facts: what a failed call leaves in the journal, and what the code gets, the first time and in replay.

Code that catches an error must catch the same error when the job is replayed, or it takes another way. But nothing in
stored data may name a class to be imported. So there is a closed list: Python's own exceptions, ours, and those that
whoever declared the call listed in `raises`, each made again from its arguments. Any other error (and one that cannot
be made from plain arguments) reaches the code as `CallFailed`, from the first time on, with the original as its
cause.

The traceback that is recorded with an error is for people. No replay makes anything of it.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from holdfast.engine.durable_call import keep_value
from holdfast.engine.tracebacks import describe_cause, extract_frames
from holdfast.errors import CallFailed, HoldfastError
from holdfast.model.redaction import redact


def _ours(kind: type[HoldfastError]) -> Iterator[type[Exception]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _ours(one)


_PYTHONS: Final = [
    kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, Exception)
]
STEP: Final = "holdfast_step"
"""Where a client's response says which step it is the answer of."""

_MESSAGE_MAX: Final = 10_000

_KNOWN: Final = {kind.__name__: kind for kind in [*_PYTHONS, *_ours(HoldfastError)]}


def record_error(error: Exception) -> dict[str, Any]:
    """The error as the journal keeps it: what a replay makes it from again, and for people its traceback."""
    record = _without_traceback(error)
    if frames := extract_frames(error):
        record["traceback"] = frames
    if (cause := describe_cause(error)) is not None:
        record["cause"] = cause
    return record


def _without_traceback(error: Exception) -> dict[str, Any]:
    record: dict[str, Any] = {"type": type(error).__qualname__, "message": _said(error)}
    args, unkept = keep_value(list(error.args))
    if unkept is None and args != [record["message"]] and len(str(args)) <= 10_000:
        record["args"] = args
    if isinstance(error, HoldfastError) and error.hint != error.default_hint:
        record["hint"] = error.hint
    if isinstance(error, CallFailed) and error.error_type != CallFailed.__qualname__:
        record["error_type"] = error.error_type
    return record


def to_raised_error(error: Exception, declared: Iterable[type[Exception]] = ()) -> Exception:
    """What the code gets for an error that just happened: itself, if a replay can give one of its class."""
    record = _without_traceback(error)
    again = from_recorded_error(record, declared)
    if record["message"] != str(error)[:_MESSAGE_MAX]:
        return again  # it named a secret: nobody hears more of it now than a replay would tell
    if type(again) is type(error):
        return error
    failed = CallFailed(f"{type(error).__qualname__}: {error}", error_type=type(error).__qualname__)
    failed.__cause__ = error
    return failed


def _said(error: Exception) -> str:
    """The error's text, without the secrets in it. Cut afterwards: half a secret is not recognised."""
    return redact(str(error))[:_MESSAGE_MAX]


def from_recorded_error(record: dict[str, Any], declared: Iterable[type[Exception]] = ()) -> Exception:
    """What the code gets for an error that the journal tells."""
    name, message = record["type"], record["message"]
    if name == CallFailed.__qualname__:
        return CallFailed(message, error_type=record.get("error_type", name), hint=record.get("hint"))
    kind = _class_named(name, declared)
    error = None if kind is None else _built(kind, record.get("args", [message]))
    if error is None:
        return CallFailed(f"{name}: {message}", error_type=name)
    if isinstance(error, HoldfastError) and "hint" in record:
        error.hint = record["hint"]
    return error


def _built(kind: type[Exception], args: list[Any]) -> Exception | None:
    """An error of this very class with these arguments, if it can be made of them."""
    try:
        error = kind(*args)
    except Exception:  # a class may want what the journal does not keep
        return None
    return error if type(error) is kind else None


def _class_named(name: str, declared: Iterable[type[Exception]]) -> type[Exception] | None:
    for kind in declared:
        if kind.__qualname__ == name:
            return kind
    return _KNOWN.get(name)


def causes(error: BaseException, raised: Sequence[tuple[Exception, str]]) -> tuple[str, ...]:
    """The calls whose failure this is, of those that raised; also when it was wrapped on its way up."""
    found: dict[str, None] = {}
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        found.update(dict.fromkeys(key for failure, key in raised if failure is one))
        found.update(dict.fromkeys(_step_of(one)))
        left += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            left += one.exceptions
    return tuple(found)


def _step_of(error: BaseException) -> tuple[str, ...]:
    """The request to a model that this is the answer of: a client makes its own error of a response, which says."""
    said = getattr(getattr(error, "response", None), "extensions", None)
    return (said[STEP],) if isinstance(said, dict) and isinstance(said.get(STEP), str) else ()
