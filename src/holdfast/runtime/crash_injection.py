"""Crash injection: a process that dies at a named point, to observe recovery.

    HOLDFAST_TEST_CRASH_AFTER_TOOL=send_email           which tool
    HOLDFAST_TEST_CRASH_STAGE=after_intent_before_call  which point; without it, right after the tool succeeded
    HOLDFAST_TEST_CRASH_MATCH=raw|slug|any              how names are compared

    HOLDFAST_TEST_CRASH_AT=journal.append_many:after#3  any point, of any tool or of the store; the third time there

The process ends with status 137 and cleans nothing up, as after kill -9. `holdfast doctor --crash-points` lists the
points. The spelling UA_TEST_… is accepted for every variable, and …_CRASH_AFTER_STAGE for the stage. Without these
variables the store is not wrapped, and the points do nothing.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.engine.crash_points import Point, Points, crash_points, ignore_point
from holdfast.errors import InvalidSetting
from holdfast.store.contract import Store
from holdfast.store.interceptor import Call, InterceptedStore

STATUS: Final = 137
_PREFIXES: Final = ("HOLDFAST_TEST_", "UA_TEST_")
_MATCHES: Final = ("raw", "slug", "any")


def parse_points(environ: Mapping[str, str], die: Callable[[str], None] | None = None) -> Points:
    """The crashes around effects that the environment names; nothing, if it names none."""
    end = _die if die is None else die
    orders = [
        order
        for order in (_parse_tool_point(environ, end), _parse_effect_point(environ, end))
        if order is not None
    ]
    if not orders:
        return ignore_point

    def reached(point: Point, tool: str) -> None:
        for order in orders:
            order(point, tool)

    return reached


def add_crash_points(
    store: Store, environ: Mapping[str, str], die: Callable[[str], None] | None = None
) -> Store:
    """The store itself; or, if the environment names a point of the store, one that dies there."""
    crash = _parse_point(environ, _die if die is None else die)
    if crash is None or crash.point in set(Point):
        return store

    async def led(name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        crash.reached(f"{name}:before")
        result = await call(*args, **options)
        crash.reached(f"{name}:after")
        return result

    return InterceptedStore(store, led)


class _Crash:
    """Ends the process when it comes to this point for the nth time."""

    def __init__(self, point: str, nth: int, die: Callable[[str], None]) -> None:
        self.point = point
        self._left = nth
        self._die = die

    def reached(self, point: str, tool: str = "") -> None:
        if point == self.point:
            self._left -= 1
            if self._left == 0:
                self._die(f"{tool} {point}".strip())


def _parse_tool_point(environ: Mapping[str, str], die: Callable[[str], None]) -> Points | None:
    tool = _read_variable(environ, "CRASH_AFTER_TOOL")
    if tool is None:
        return None
    stage = _parse_stage(
        _read_variable(environ, "CRASH_STAGE") or _read_variable(environ, "CRASH_AFTER_STAGE")
    )
    match = _read_variable(environ, "CRASH_MATCH") or "raw"
    if match not in _MATCHES:
        msg = f"HOLDFAST_TEST_CRASH_MATCH={match!r} is not known"
        raise InvalidSetting(msg, hint=f"Use one of {', '.join(_MATCHES)}.")

    def reached(point: Point, name: str) -> None:
        if point is stage and matches_tool(tool, name, match):
            die(f"{name} {point}")

    return reached


def _parse_effect_point(environ: Mapping[str, str], die: Callable[[str], None]) -> Points | None:
    crash = _parse_point(environ, die)
    return crash.reached if crash is not None and crash.point in set(Point) else None


def _parse_point(environ: Mapping[str, str], die: Callable[[str], None]) -> _Crash | None:
    text = _read_variable(environ, "CRASH_AT")
    if text is None:
        return None
    point, sign, nth = text.partition("#")
    points = crash_points()
    if point not in points:
        from difflib import get_close_matches

        similar = (
            ", ".join(get_close_matches(point, points, n=3)) or "journal.append_many:after, before_intent"
        )
        msg = f"HOLDFAST_TEST_CRASH_AT={text!r} is no crash point"
        raise InvalidSetting(msg, hint=f"`holdfast doctor --crash-points` lists them; near it: {similar}.")
    if sign and not (nth.isascii() and nth.isdigit() and int(nth) > 0):
        msg = f"HOLDFAST_TEST_CRASH_AT={text!r}: {nth!r} is no number of times"
        raise InvalidSetting(msg, hint=f"Say which time, from 1: {point}#3")
    return _Crash(point, int(nth or 1), die)


def matches_tool(ordered: str, name: str, match: str) -> bool:
    """Whether this tool is the named one. `raw` compares names, or a server's tool by its last part; `slug` ignores
    case and everything that is neither letter nor digit."""
    last_of_name, last_of_ordered = name.rpartition("__")[2], ordered.rpartition("__")[2]
    by_name = ordered in {name, last_of_name} or last_of_ordered == name
    by_slug = _slug(ordered) in {_slug(name), _slug(last_of_name)} or _slug(last_of_ordered) == _slug(name)
    return {"raw": by_name, "slug": by_slug, "any": by_name or by_slug}[match]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _parse_stage(text: str | None) -> Point:
    if text is None:
        return Point.AFTER_SUCCESS
    try:
        return Point(text)
    except ValueError:
        msg = f"HOLDFAST_TEST_CRASH_STAGE={text!r} is no crash point"
        raise InvalidSetting(msg, hint=f"Use one of {', '.join(Point)}.") from None


def _read_variable(environ: Mapping[str, str], name: str) -> str | None:
    return next((environ[prefix + name] for prefix in _PREFIXES if environ.get(prefix + name)), None)


def _die(where: str) -> None:
    sys.stderr.write(f"holdfast: dies here as ordered: {where}\n")
    sys.stderr.flush()
    os._exit(STATUS)
