"""Tracebacks for people: the frames of the author's code, bounded, with their source lines and without secrets.

Most frames of a job's traceback are ours and asyncio's. Its reader looks for the author's own line, so only these
frames are kept: the author's, and the innermost one of an installed package if the error came from there. Code of an
application that is itself installed as a package counts as the author's if there is no other.
"""

from __future__ import annotations

import asyncio
import linecache
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from holdfast.errors import CallFailed
from holdfast.model.redaction import redact
from holdfast.model.stall_report import is_installed, is_library

FRAMES_MAX: Final = 30
BYTES_MAX: Final = 8 * 1024
CAUSES_MAX: Final = 2
"""The number of errors behind an error (`raise … from`, a group) that are recorded with it."""

_CODE_MAX: Final = 300
_FILE_MAX: Final = 500
_MESSAGE_MAX: Final = 1_000
_PACKAGE: Final = str(Path(__file__).parent.parent) + "/"
_DEMO: Final = _PACKAGE + "demo/"

Frames = list[dict[str, Any]]
Place = tuple[FrameType, int]


def extract_frames(error: BaseException) -> Frames:
    """The author's frames of an error, outermost first: `file`, `line`, `function`, `code`. `skipped` in the first one
    counts the outer frames that were left out for length."""
    frames = _select_frames(traceback.walk_tb(error.__traceback__))
    cause = error.__cause__
    if cause is not None and (not frames or isinstance(error, CallFailed)):
        # A timeout has its frames where the call was cancelled, a wrapped error where it was raised.
        frames += _select_frames(traceback.walk_tb(cause.__traceback__))
    return _limit_frames(frames)


def extract_stack(frame: FrameType) -> Frames:
    """The author's frames of a stack that ends in this frame, outermost first."""
    return _limit_frames(_select_frames(reversed(list(traceback.walk_stack(frame)))))


def describe_cause(error: BaseException, depth: int = CAUSES_MAX) -> dict[str, Any] | None:
    """The error behind an error, if it has frames of the author's code: its `type`, `message`, `traceback`, and the
    `cause` behind that one."""
    cause = _find_cause(error)
    frames = [] if cause is None else extract_frames(cause)
    if cause is None or not frames or depth == 0:
        return None
    message = redact(str(cause))[:_MESSAGE_MAX]
    record: dict[str, Any] = {"type": type(cause).__qualname__, "message": message, "traceback": frames}
    inner_cause = describe_cause(cause, depth - 1)
    return record if inner_cause is None else record | {"cause": inner_cause}


def _find_cause(error: BaseException) -> BaseException | None:
    if isinstance(error, CallFailed):
        return None  # the engine wrapped an error, and uses that error's frames
    if isinstance(error, BaseExceptionGroup):
        return error.exceptions[0]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None if isinstance(cause, asyncio.CancelledError) else cause


def format_frames(frames: Any) -> list[str]:
    """Recorded frames as the lines of a Python traceback. Malformed ones are left out."""
    lines: list[str] = []
    for frame in frames if isinstance(frames, list | tuple) else ():
        if not isinstance(frame, dict):
            continue
        if frame.get("skipped"):
            lines.append(f"  … {frame['skipped']} frames are left out")
        lines.append(f'  File "{frame.get("file")}", line {frame.get("line")}, in {frame.get("function")}')
        if frame.get("code"):
            lines.append(f"    {frame['code']}")
    return lines


def format_error(error: Any) -> str:
    """A recorded error in one line: `KeyError: 'nope'`. For a group, its first error is included."""
    if not isinstance(error, dict):
        return "" if error is None else str(error)
    parts = [str(error.get("type", "Error")), str(error.get("message", ""))]
    if _is_group(error) and error.get("cause") is not None:
        parts.append(format_error(error["cause"]))
    return ": ".join(filter(None, parts))


def _is_group(error: dict[str, Any]) -> bool:
    return error.get("type") in {"ExceptionGroup", "BaseExceptionGroup"}


def format_traceback(error: Any) -> list[str]:
    """A recorded error as lines, as Python prints it: the errors behind it first. Empty, if it has no frames."""
    if not isinstance(error, dict):
        return []
    cause = error.get("cause")
    lines = [*format_traceback(cause), f"  {format_error(cause)}", "  which led to"] if cause else []
    return lines + format_frames(error.get("traceback"))


def locate_error(error: Any) -> str:
    """The innermost line of the author's code in a recorded error: `/app/shop.py:12 in pay`; empty without one."""
    if not isinstance(error, dict):
        return ""
    if _is_group(error) and (place := locate_error(error.get("cause"))):
        return place
    frames = [frame for frame in error.get("traceback") or () if isinstance(frame, dict)]
    authored = [frame for frame in frames if not is_library(str(frame.get("file")))]
    for frame in reversed(authored or frames):
        return f"{frame.get('file')}:{frame.get('line')} in {frame.get('function')}"
    return locate_error(error.get("cause"))


# ── choosing frames ───────────────────────────────────────────────────────────────────────────────


def _select_frames(stack: Iterable[Place]) -> list[Place]:
    places = [place for place in stack if not is_our_file(_file(place))]
    authored = [place for place in places if not is_library(_file(place))]
    installed = [place for place in places if is_installed(_file(place))]
    if not authored:
        return installed
    if installed and places.index(installed[-1]) > places.index(authored[-1]):
        authored.append(installed[-1])
    return authored


def _file(place: Place) -> str:
    return place[0].f_code.co_filename


def is_our_file(file: str) -> bool:
    return file.startswith(_PACKAGE) and not file.startswith(_DEMO)


def _limit_frames(places: Sequence[Place]) -> Frames:
    """As many of the innermost frames as fit."""
    frames: Frames = []
    size = 0
    for record in _describe(reversed(places[-FRAMES_MAX:])):
        size += sum(len(str(value).encode("utf-8", "replace")) for value in record.values())
        if size > BYTES_MAX and frames:
            break
        frames.insert(0, record)
    if len(frames) < len(places):
        frames[0] = {"skipped": len(places) - len(frames)} | frames[0]
    return frames


def _describe(places: Iterable[Place]) -> Iterator[dict[str, Any]]:
    for frame, line in places:
        code = frame.f_code
        source = linecache.getline(code.co_filename, line, frame.f_globals).strip()
        yield {
            "file": redact(code.co_filename)[:_FILE_MAX],
            "line": line,
            "function": redact(code.co_qualname),
            "code": redact(source)[:_CODE_MAX],
        }
