"""Recorded errors: what a failed call leaves in the journal, and which error the code gets, in the first run and in
replay.

Code that catches an error must catch the same error when the job is replayed, or it takes another branch. But stored
data must not name a class to be imported. So there is a closed list: Python's own exceptions, ours, and those that the
author of the call listed in `raises`, each made again from its arguments. Any other error (and one that cannot be made
from plain arguments) reaches the code as `CallFailed`, from the first run on, with the original as its cause.

The traceback that is recorded with an error is for people. Replay does not use it.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from holdfast.engine.durable_call import keep_value
from holdfast.engine.tracebacks import describe_cause, extract_frames
from holdfast.errors import CallFailed, HoldfastError
from holdfast.model.redaction import redact


def _list_error_classes(kind: type[HoldfastError]) -> Iterator[type[Exception]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _list_error_classes(subclass)


_PYTHONS: Final = [
    kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, Exception)
]
STEP: Final = "holdfast_step"
"""Extension of a client's response that names the step whose answer it is."""

_MESSAGE_MAX: Final = 10_000

_KNOWN: Final = {kind.__name__: kind for kind in [*_PYTHONS, *_list_error_classes(HoldfastError)]}


def record_error(error: Exception) -> dict[str, Any]:
    """The error as recorded in the journal: the data from which a replay makes it again, and its traceback
    for people."""
    record = _describe_error(error)
    if frames := extract_frames(error):
        record["traceback"] = frames
    if (cause := describe_cause(error)) is not None:
        record["cause"] = cause
    return record


def _describe_error(error: Exception) -> dict[str, Any]:
    record: dict[str, Any] = {"type": type(error).__qualname__, "message": _redact_message(error)}
    args, not_storable = keep_value(list(error.args))
    if not_storable is None and args != [record["message"]] and len(str(args)) <= 10_000:
        record["args"] = args
    if isinstance(error, HoldfastError) and error.hint != error.default_hint:
        record["hint"] = error.hint
    if isinstance(error, CallFailed) and error.error_type != CallFailed.__qualname__:
        record["error_type"] = error.error_type
    return record


def to_raised_error(error: Exception, declared: Iterable[type[Exception]] = ()) -> Exception:
    """The error that the code gets when a call fails now: the error itself, if a replay can make one of its class."""
    record = _describe_error(error)
    again = from_recorded_error(record, declared)
    if record["message"] != str(error)[:_MESSAGE_MAX]:
        return again  # it contained a secret: the code gets the redacted text, as in a replay
    if type(again) is type(error):
        return error
    failed = CallFailed(f"{type(error).__qualname__}: {error}", error_type=type(error).__qualname__)
    failed.__cause__ = error
    return failed


def _redact_message(error: Exception) -> str:
    """The error's text, with secrets redacted. Truncated afterwards: half a secret would not be recognised."""
    return redact(str(error))[:_MESSAGE_MAX]


def from_recorded_error(record: dict[str, Any], declared: Iterable[type[Exception]] = ()) -> Exception:
    """The error that the code gets for a recorded error."""
    name, message = record["type"], record["message"]
    if name == CallFailed.__qualname__:
        return CallFailed(message, error_type=record.get("error_type", name), hint=record.get("hint"))
    kind = _find_class(name, declared)
    error = None if kind is None else _build_error(kind, record.get("args", [message]))
    if error is None:
        return CallFailed(f"{name}: {message}", error_type=name)
    if isinstance(error, HoldfastError) and "hint" in record:
        error.hint = record["hint"]
    return error


def _build_error(kind: type[Exception], args: list[Any]) -> Exception | None:
    """An error of exactly this class with these arguments, if the class accepts them."""
    try:
        error = kind(*args)
    except Exception:  # a class may need arguments that the journal does not have
        return None
    return error if type(error) is kind else None


def _find_class(name: str, declared: Iterable[type[Exception]]) -> type[Exception] | None:
    for kind in declared:
        if kind.__qualname__ == name:
            return kind
    return _KNOWN.get(name)


def find_failed_steps(error: BaseException, raised: Sequence[tuple[Exception, str]]) -> tuple[str, ...]:
    """The keys of the failed calls that caused this error; also found when the error was wrapped on its way up."""
    keys: dict[str, None] = {}
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        keys.update(dict.fromkeys(key for failure, key in raised if failure is current))
        keys.update(dict.fromkeys(_step_of(current)))
        pending += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            pending += current.exceptions
    return tuple(keys)


def _step_of(error: BaseException) -> tuple[str, ...]:
    """The key of the model request that this error answers: a client makes its error from a response, whose extensions
    name the step."""
    extensions = getattr(getattr(error, "response", None), "extensions", None)
    return (
        (extensions[STEP],) if isinstance(extensions, dict) and isinstance(extensions.get(STEP), str) else ()
    )
